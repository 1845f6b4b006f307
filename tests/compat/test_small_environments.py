"""Environments that know nothing of Seatrial give the rewards here that they give with verifiers 0.3.1."""

import importlib.util
from pathlib import Path

import pytest

FILE = Path(__file__).parent / "small_environments.py"
# Of an output of verifiers; `tool_defs` is a column there.
COLUMNS = {
    "answer",
    "completion",
    "error",
    "example_id",
    "is_completed",
    "is_truncated",
    "metrics",
    "prompt",
    "reward",
    "stop_condition",
    "timing",
    "token_usage",
}


@pytest.fixture
def environments(compat):
    spec = importlib.util.spec_from_file_location("small_environments", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["single", "doubting", "tools", "stateful", "group", "ranked", "ending", "persuaded"])
def test_rewards_and_columns_are_those_of_verifiers(environments, name):
    load, model, rewards = environments.CASES[name]

    def scripted(request):
        said = model(request["messages"], request.get("tools") or [])
        return said if isinstance(said, str) else {"choices": [{"message": said}]}

    results = load().evaluate_sync(scripted, "scripted", rollouts_per_example=2)
    assert [output["error"] for output in results["outputs"]] == [None] * len(rewards)
    assert [output["reward"] for output in results["outputs"]] == pytest.approx(rewards)
    known = {name: value for name, value in results["outputs"][0]["metrics"].items() if value is not None}
    assert known == pytest.approx(environments.METRICS[name])
    assert all(set(output) >= COLUMNS for output in results["outputs"])
