"""The page of HarborEnv: programs like its two examples, as people have them, with nothing changed but the import.

They run as in a notebook: from a folder with tasks and an agent, with `await` at the top level.
"""

import ast
import inspect
import textwrap
from typing import Any

import pytest

from seatrial.env import client
from seatrial.gateway.upstreams.function import FunctionModel
from seatrial.sandbox.api import SandboxSpec, open_sandbox, run_shell
from tests.env.worlds import ASKING, make_tasks

AGENT = f"{textwrap.dedent(ASKING)}\nopen('/app/answer.txt', 'w').write(ask('What shall I write?'))\n"

EVALUATING = """
import seatrial as vf
from pathlib import Path

def load_environment():
    return vf.HarborEnv(
        run_command="python /app/agent.py",
        dataset_path=Path("./harbor_tasks"),
        tasks=["task_1", "task_2"],
        agent_workdir="/app",
        docker_image="python:3.11",
        max_turns=20,
        timeout_seconds=300,
    )

env = load_environment()
results = await env.evaluate(
    client=vf.ClientConfig(api_key="..."),
    model="gpt-4",
    num_examples=10
)
print(f"The mean is {results['metadata']['avg_reward']}")
"""

BRINGING_AN_AGENT = """
import seatrial as vf
from pathlib import Path

class MyHarborEnv(vf.HarborEnv):
    async def post_sandbox_setup(self, state: vf.State) -> None:
        await super().post_sandbox_setup(state)
        sandbox_id = state["sandbox_id"]
        await self.sandbox_client.upload_file(sandbox_id, "/app/agent.py", "./my_agent.py")
        await self.sandbox_client.execute_command(
            sandbox_id,
            "pip install -r /app/requirements.txt",
            working_dir="/app"
        )

def load_environment():
    return MyHarborEnv(run_command="python /app/agent.py", dataset_path=Path("./harbor_tasks"))

results = await load_environment().evaluate(vf.ClientConfig(api_key="..."), "gpt-4")
"""


@pytest.fixture(autouse=True)
def _python_is_or_can_be_there(desk):
    """Under that name. An ordinary user's sandboxes may have a system to which nothing can be added."""

    async def look():
        async with open_sandbox(desk.backend, SandboxSpec()) as sandbox:
            return await run_shell(sandbox, "command -v python || test -w /usr/local/bin")

    if desk.wait(look()).exit_code != 0:
        pytest.skip("no python in sandboxes here: install python-is-python3")


@pytest.fixture
def model_says_right(monkeypatch):
    """Whatever provider a client is for, its model says `right`."""
    monkeypatch.setattr(client, "make_upstream", lambda given: FunctionModel(lambda request: "right"))


def run_as_in_a_notebook(desk, program) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "notebook"}
    code = compile(program, "notebook", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)

    async def run():
        started = eval(code, names)  # noqa: S307 - the program above
        assert inspect.iscoroutine(started)
        await started

    desk.wait(run())
    return names


def test_a_program_that_evaluates_tasks_runs(desk, tmp_path, monkeypatch, capsys, model_says_right):
    make_tasks(tmp_path / "harbor_tasks", "task_1", "task_2", "task_3", files={"environment/agent.py": AGENT})
    monkeypatch.chdir(tmp_path)
    names = run_as_in_a_notebook(desk, EVALUATING)
    assert [output["error"] for output in names["results"]["outputs"]] == [None, None]
    assert capsys.readouterr().out == "The mean is 1.0\n"


@pytest.mark.whole
def test_a_program_that_brings_an_agent_runs(desk, tmp_path, monkeypatch, model_says_right):
    make_tasks(tmp_path / "harbor_tasks", "task_1", "task_2")
    (tmp_path / "my_agent.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    names = run_as_in_a_notebook(desk, BRINGING_AN_AGENT)
    assert [output["reward"] for output in names["results"]["outputs"]] == [1.0, 1.0]
