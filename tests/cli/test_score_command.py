"""`seatrial score`: what a real verifier wrote, as a table and as JSON."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seatrial.model.evaluation import EvaluationResult
from tests.cli.conftest import SEATRIAL, Seatrial, cells, on_terminal
from tests.conftest import REPOSITORY, MakeTask

TASK = REPOSITORY / "examples" / "tasks" / "voltage-drop"


def verify(kind: str, root: Path) -> tuple[Path, Path]:
    """Run the task's own test.sh on a golden output below `root`; return the artifacts and the output."""
    shutil.copytree(TASK / "golden" / kind, root, dirs_exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(["sh", TASK / "tests" / "test.sh"], env={"KIT_ROOT": str(root), "PATH": path}, check=True)
    return root / "logs" / "verifier", root / "workspace" / "report.md"


@pytest.fixture
def artifacts(tmp_path: Path) -> Path:
    """An empty folder for a verifier's files."""
    folder = tmp_path / "artifacts"
    folder.mkdir()
    return folder


def score(seatrial: Seatrial, *arguments: object) -> EvaluationResult:
    shown = seatrial("score", *arguments, "--json")
    assert (shown.code, shown.err) == (0, "")
    result = EvaluationResult.model_validate_json(shown.out)
    assert shown.out == result.model_dump_json(indent=2) + "\n"
    return result


def test_the_golden_pass_is_shown_as_a_pass(seatrial: Seatrial, tmp_path: Path):
    logs, output = verify("pass", tmp_path)
    shown = seatrial("score", TASK, "--artifacts", logs, "--output", output)
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines() == [
        "reward   1  (pass)",
        "validity output_parseable: yes, schema_valid: yes, verifier_completed: yes",
        "dimension             score  evidence",
        "voltage_drop_v    1.0 / 1.0  found 9.4, expected 9.40013 V ± 0.0470007",
        "voltage_drop_pct  1.0 / 1.0  found 2.35, expected 2.35003 ± 0.0117502",
        "compliant         1.0 / 1.0  found True, expected true",
    ]


def test_the_golden_fail_says_what_is_wrong(seatrial: Seatrial, tmp_path: Path):
    logs, output = verify("fail", tmp_path)
    shown = seatrial("score", TASK, "--artifacts", logs, "--output", output)
    assert shown.code == 0
    assert shown.out.startswith("reward   0  (fail)\n")
    rows = [cells(line) for line in shown.out.splitlines()]
    assert ["voltage_drop_v", "0.0 / 1.0"] in [row[:2] for row in rows]
    assert ["category", "source", "description"] in rows
    assert "unit_mismatch  mechanical  'voltage_drop_v': " in shown.out


@pytest.mark.parametrize(("kind", "reward"), [("pass", 1.0), ("fail", 0.0)])
def test_json_is_the_stored_result(seatrial: Seatrial, tmp_path: Path, kind: str, reward: float):
    logs, output = verify(kind, tmp_path)
    result = score(seatrial, TASK, "--artifacts", logs, "--output", output)
    assert result.reward == reward
    assert result.validity.verifier_completed
    assert set(result.breakdown or {}) == {"voltage_drop_v", "voltage_drop_pct", "compliant"}


def test_without_an_output_none_is_checked(seatrial: Seatrial, tmp_path: Path):
    logs, _ = verify("pass", tmp_path)
    result = score(seatrial, TASK, "--artifacts", logs)
    assert (result.reward, result.validity.output_parseable) == (1.0, True)
    assert result.validity.errors == ["note: /workspace/report.md was not collected, so its format was not checked"]


def test_a_missing_output_that_is_declared_is_no_output_and_costs_the_reward(
    seatrial: Seatrial, make_task: MakeTask, tmp_path: Path
):
    logs, output = verify("pass", tmp_path)
    output.unlink()
    task = make_task(toml='[output]\npath = "/workspace/report.md"\n')
    shown = seatrial("score", task, "--artifacts", logs, "--output", output)
    assert shown.out.startswith("reward   0  (no_output)\n")
    assert "  no_output: /workspace/report.md does not exist\n" in shown.out
    assert "  reward_gated: the verifier gave 1.0" in shown.out


def test_a_declared_output_that_does_not_parse_is_an_invalid_output(
    seatrial: Seatrial, make_task: MakeTask, tmp_path: Path
):
    logs, output = verify("pass", tmp_path)
    output.write_bytes(b"\xff\xff")
    task = make_task(toml='[output]\npath = "/workspace/report.md"\n')
    shown = seatrial("score", task, "--artifacts", logs, "--output", output)
    assert shown.out.startswith("reward   0  (invalid_output)\nvalidity output_parseable: no, schema_valid: no, ")


def test_an_output_that_only_the_instruction_asks_for_costs_no_reward(seatrial: Seatrial, tmp_path: Path):
    logs, output = verify("pass", tmp_path)
    output.unlink()
    shown = seatrial("score", TASK, "--artifacts", logs, "--output", output)
    assert shown.out.startswith("reward   1  (pass)\nvalidity output_parseable: yes, ")
    assert "  note: /workspace/report.md does not exist; task.toml does not declare the path" in shown.out


def test_a_silent_verifier_is_a_verifier_error(seatrial: Seatrial, artifacts: Path):
    shown = seatrial("score", TASK, "--artifacts", artifacts)
    assert shown.code == 0
    assert shown.out.startswith("reward   0  (verifier_error)\n")
    assert "verifier_completed: no" in shown.out


def test_the_policy_says_which_reward_file_decides(seatrial: Seatrial, artifacts: Path):
    (artifacts / "reward.json").write_text('{"reward": 0.25}', encoding="utf-8")
    (artifacts / "reward.txt").write_text("0.75", encoding="utf-8")
    by_default = score(seatrial, TASK, "--artifacts", artifacts)
    assert by_default == score(seatrial, TASK, "--artifacts", artifacts, "--policy", "declared")
    assert by_default.reward == 0.25
    assert score(seatrial, TASK, "--artifacts", artifacts, "--policy", "text_first").reward == 0.75


def test_a_step_is_scored_by_its_own_output(seatrial: Seatrial, make_task: MakeTask, artifacts: Path, tmp_path: Path):
    steps = {f"steps/{name}/instruction.md": f"Write it to `/workspace/{name}.json`.\n" for name in ("one", "two")}
    folder = make_task("steps", toml='[[steps]]\nname = "one"\n[[steps]]\nname = "two"\n', files=steps)
    (artifacts / "reward.json").write_text('{"reward": 1}', encoding="utf-8")
    missing = tmp_path / "missing.json"
    result = score(seatrial, folder, "--artifacts", artifacts, "--output", missing, "--step", "one")
    assert "note: /workspace/one.json does not exist; " in result.validity.errors[0]
    shown = seatrial("score", folder, "--artifacts", artifacts, "--step", "three")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == "Error: steps has no step 'three'; its steps are one, two\n"


def test_a_task_without_steps_says_so(seatrial: Seatrial, artifacts: Path):
    shown = seatrial("score", TASK, "--artifacts", artifacts, "--step", "one")
    assert (shown.code, shown.err) == (
        2,
        "Error: voltage-drop has no step 'one'; its steps are none: the task has no steps\n",
    )


def test_artifacts_must_be_a_folder(seatrial: Seatrial, artifacts: Path):
    for where in (artifacts / "nowhere", TASK / "task.toml"):
        shown = seatrial("score", TASK, "--artifacts", where)
        assert (shown.code, shown.out) == (2, "")
        assert shown.err.startswith(f"Error: {where}: no such folder")


def test_a_task_that_cannot_be_read_is_a_usage_error_with_every_reason(
    seatrial: Seatrial, make_task: MakeTask, artifacts: Path
):
    folder = make_task("broken", toml="[agent]\ntimeout_sec = -1\n[verifier]\ntimeout_sec = 'x'\n")
    shown = seatrial("score", folder, "--artifacts", artifacts)
    assert (shown.code, shown.out) == (2, "")
    assert "task.toml: agent.timeout_sec: " in shown.err
    assert "task.toml: verifier.timeout_sec: " in shown.err


def test_details_of_any_shape_are_shown(seatrial: Seatrial, artifacts: Path):
    (artifacts / "reward.json").write_text('{"reward": 0.5, "speed": 3}', encoding="utf-8")
    (artifacts / "details.json").write_text(
        '{"a": {"score": 1}, "b": {"score": 2, "max_score": 4, "evidence": "tab\\there\\nline"}, "c": [1], "d": null}',
        encoding="utf-8",
    )
    lines = seatrial("score", TASK, "--artifacts", artifacts).out.splitlines()
    assert lines[-6:] == [
        "dimension    score  evidence",
        "a          1 / 1.0",
        "b            2 / 4  tab here line",
        "c                   [1]",
        "d                   None",
        "speed               3",
    ]


def test_a_terminal_gets_tables(tmp_path: Path):
    logs, output = verify("fail", tmp_path)
    shown = on_terminal((*SEATRIAL, "score", str(TASK), "--artifacts", str(logs), "--output", str(output)))
    for mark in ("breakdown", "error tags", "unit_mismatch"):
        assert mark in shown
