"""Agents that we did not write solve an example task, each with its own tools and in its own dialect, with no network.

They run from trees that were baked before into the store at $SEATRIAL_REAL_AGENTS, as `.ci/run` does:

    SEATRIAL_CACHE=$SEATRIAL_REAL_AGENTS seatrial agents bake claude-code
"""

import asyncio
import json
import os
import shlex
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from seatrial.gateway.calls import read_calls
from seatrial.gateway.upstreams.open import make_upstream
from seatrial.jobs.api import JobOutcome, prepare_job, run_prepared
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, TrialOptions
from seatrial.model.trace import DialectName
from tests.conftest import REPOSITORY
from tests.gateway.gateways import open_gateway

TASK = REPOSITORY / "examples/tasks/voltage-drop"
SOLVE = f"python3 -c {shlex.quote((TASK / 'solution/solve.py').read_text())} > /workspace/report.md"


class Real(NamedTuple):
    """An agent as its users know it: which tool runs a command and by which argument, which dialect it speaks, which
    other one the model speaks in a test, and the command by which it hands in its work, if it has to.
    """

    name: str
    tool: str
    argument: str
    dialect: DialectName
    foreign: DialectName
    hands_in: str | None = None


SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
AGENTS = [
    Real("claude-code", "Bash", "command", "anthropic", "openai_chat"),
    Real("codex", "exec_command", "cmd", "openai_responses", "anthropic"),
    Real("mini-swe-agent", "bash", "command", "openai_chat", "google", SUBMIT),
]


def says(agent: Real) -> dict[str, Any]:
    """A script for an agent: the model looks around, solves the task, and is content. Titles do not disturb it."""

    def runs(command: str) -> dict[str, Any]:
        return {"text": "I try.", "tool_calls": [{"name": agent.tool, "arguments": {agent.argument: command}}]}

    end = runs(agent.hands_in) if agent.hands_in else "The report is written."
    return {
        "rules": [
            {"when": {"tools": agent.tool, "turn": 1}, "say": runs("pwd; cat /nowhere")},
            {"when": {"tools": agent.tool, "turn": 2, "contains": "No such file"}, "say": runs(SOLVE)},
            {"when": {"tools": agent.tool, "by": "tool"}, "say": end},
        ]
    }


@pytest.fixture
def script(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script of the agent that a test is about. Skips the test where that agent is not baked."""
    store = os.environ.get("SEATRIAL_REAL_AGENTS")
    if not store:
        pytest.skip("no real agents: name a store with baked ones in $SEATRIAL_REAL_AGENTS")
    monkeypatch.setenv("SEATRIAL_CACHE", store)
    file = tmp_path / "script.json"
    file.write_text(json.dumps(says(request.getfixturevalue("agent"))))
    return file


async def run_job(agent: Real, upstream: str, folder: Path, task: Path = TASK) -> JobOutcome:
    spec = JobSpec(
        name="real",
        tasks=(str(task),),
        agents=(AgentOptions(name=agent.name, model="claude-sonnet-4-5"),),
        trial=TrialOptions(network="none", image="host"),
        model=ModelOptions(upstream=upstream),
    )
    return await run_prepared(prepare_job(spec, folder))


def check(agent: Real, outcome: JobOutcome) -> Path:
    """The agent has solved the task, and its record says how; returns the folder of its trial."""
    (entry,) = outcome.store.entries()
    record, folder = outcome.store.record(entry.trial_id), outcome.store.trial_folder(entry.trial_id)
    said = [path.read_text()[-2000:] for path in (folder / "agent").glob("std*.txt")]
    assert record.failure is None, said
    assert entry.reward == 1.0, said
    assert record.disputed_reward is None
    assert record.agent.version is not None
    assert record.agent.layer is not None
    calls = read_calls(folder / "calls.jsonl")
    assert {call.dialect for call in calls} == {agent.dialect}
    assert [call.error for call in calls] == [None] * len(calls)
    steps = json.loads((folder / "agent/trajectory.json").read_text())["steps"]
    used = [call["function_name"] for step in steps for call in step.get("tool_calls", ())]
    assert used == [agent.tool] * (3 if agent.hands_in else 2)
    return folder


@pytest.mark.whole
@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", AGENTS[:2], ids=lambda agent: agent.name)
def test_an_agent_solves_a_task_in_its_own_dialect(agent, script, tmp_path):
    check(agent, asyncio.run(run_job(agent, f"scripted:{script}", tmp_path / "job")))


@pytest.mark.whole
@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_an_agent_solves_a_task_with_a_model_of_another_dialect_and_again_from_its_recording(agent, script, tmp_path):
    async def run() -> JobOutcome:
        async with AsyncExitStack() as stack:
            model = await stack.enter_async_context(open_gateway(make_upstream(f"scripted:{script}"), tmp_path))
            at = model.url if agent.foreign in ("anthropic", "google") else f"{model.url}/v1"
            os.environ["REAL_KEY"] = model.session.key
            kind = "openai" if agent.foreign.startswith("openai") else agent.foreign
            upstream = f"{kind}:{at},key=REAL_KEY,dialects={agent.foreign}"
            return await run_job(agent, upstream, tmp_path / "job")

    folder = check(agent, asyncio.run(run()))
    assert {call.dialect for call in read_calls(tmp_path / "calls.jsonl")} == {agent.foreign}
    check(agent, asyncio.run(run_job(agent, f"replay:{folder / 'calls.jsonl'}", tmp_path / "again")))


MCP_TASK = """
[environment]
workdir = "/workspace"
[[environment.mcp_servers]]
name = "bench"
transport = "stdio"
command = "python3"
args = ["/workspace/server.py"]
"""
MCP_SERVER = """
import json, sys
TOOL = {"name": "measure", "description": "Measures.", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {"protocolVersion": asked.get("params", {}).get("protocolVersion"),
                       "capabilities": {"tools": {}}, "serverInfo": {"name": "bench", "version": "1"}},
        "tools/list": {"tools": [TOOL]},
        "tools/call": {"content": [{"type": "text", "text": "It is 4711."}]},
    }
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answers.get(asked["method"], {})}), flush=True)
"""


@pytest.mark.whole
@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", AGENTS[:2], ids=lambda agent: agent.name)
def test_an_agent_uses_a_tool_of_its_task(agent, script, make_task, tmp_path):
    tests = "#!/bin/sh\ngrep -q 4711 /workspace/answer && echo 1 >/logs/verifier/reward.txt\n"
    task = make_task("measure", toml=MCP_TASK, files={"environment/server.py": MCP_SERVER, "tests/test.sh": tests})
    measure = {"tool_calls": [{"name": "mcp__bench__measure", "arguments": {}}]}
    write = {"tool_calls": [{"name": agent.tool, "arguments": {agent.argument: "echo 4711 >/workspace/answer"}}]}
    rules = [
        {"when": {"tools": "mcp__bench__measure", "turn": 1}, "say": measure},
        {"when": {"contains": "It is 4711.", "turn": 2}, "say": write},
        {"when": {"by": "tool"}, "say": "Done."},
    ]
    script.write_text(json.dumps({"rules": rules}))
    outcome = asyncio.run(run_job(agent, f"scripted:{script}", tmp_path / "job", task))
    assert [entry.reward for entry in outcome.store.entries()] == [1.0]
