"""An agent that we did not write, mini-swe-agent, solves an example task through the gateway.

It is installed into a directory that becomes an image layer, named by $SEATRIAL_AGENT_LAYER; `.ci/run` does so:

    /usr/bin/python3 -m pip install --target $SEATRIAL_AGENT_LAYER/opt/agent mini-swe-agent mcp
"""

import asyncio
import json
import os
import shlex
from pathlib import Path

import pytest

from seatrial.gateway.calls import conversation, read_calls
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, TrialOptions
from tests.backends.stand_ins import stand_in
from tests.conftest import REPOSITORY
from tests.gateway.layers import LayeredBackend

TASK = REPOSITORY / "examples/tasks/voltage-drop"
HOME = "/tmp/mini"
AGENT_ENVIRONMENT = {
    "PYTHONPATH": "/opt/agent",
    "MSWEA_CONFIGURED": "true",
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_GLOBAL_CONFIG_DIR": HOME,
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
COMMAND = (
    "/usr/bin/python3 -m minisweagent.run.mini --model openai/$OPENAI_MODEL --yolo --exit-immediately "
    '--task "$(cat "$HARBOR_INSTRUCTION_PATH")" --output /logs/agent/trajectory.json'
)


def layer() -> Path:
    """Where the agent is installed. Skips the test where it is not."""
    path = Path(os.environ.get("SEATRIAL_AGENT_LAYER", "/nowhere"))
    if not (path / "opt/agent/minisweagent").is_dir():
        pytest.skip("mini-swe-agent is not installed in $SEATRIAL_AGENT_LAYER")
    return path


def bash(thought: str, command: str) -> dict[str, object]:
    return {"text": thought, "tool_calls": [{"name": "bash", "arguments": {"command": command}}]}


def solution() -> list[object]:
    """What a model says that solves the task: it looks, computes, checks, makes one mistake, and submits."""
    code = (TASK / "solution/solve.py").read_text()
    return [
        bash("I look around first.", "pwd; ls -la; python3 --version"),
        "I forgot to call a tool.",
        bash("I write the report.", f"python3 -c {shlex.quote(code)} > /workspace/report.md"),
        bash("I check it.", "tail -n 5 /workspace/report.md; cat /nowhere"),
        bash("Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ]


@pytest.mark.timeout(300)
def test_mini_swe_agent_solves_a_task(tmp_path, monkeypatch):
    place = layer()
    stand_in(monkeypatch, lambda: LayeredBackend(place))
    script = tmp_path / "script.json"
    script.write_text(json.dumps(solution()))
    spec = JobSpec(
        name="real",
        tasks=(str(TASK),),
        agents=(AgentOptions(name="command", label="mini", command=COMMAND, model="gpt-5", env=AGENT_ENVIRONMENT),),
        trial=TrialOptions(network="none"),
        model=ModelOptions(upstream=f"scripted:{script}"),
    )
    outcome = asyncio.run(run_prepared(prepare_job(spec, tmp_path / "job")))
    (entry,) = outcome.store.entries()
    record = outcome.store.record(entry.trial_id)
    folder = outcome.store.trial_folder(entry.trial_id)
    said = (folder / "agent/stdout.txt").read_text() + (folder / "agent/stderr.txt").read_text()
    assert record.failure is None, said
    assert entry.reward == 1.0, said
    calls = read_calls(folder / "calls.jsonl")
    assert [call.error for call in calls] == [None] * 5
    talk = conversation(calls, 4)
    assert "/workspace" in str(talk[3])
    assert "No such file" in str(talk[-1])
    assert record.model_usage is not None
    assert (record.model_usage.calls, record.model_usage.cost_usd is not None) == (5, True)
