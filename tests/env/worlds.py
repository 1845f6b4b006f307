"""What the tests of agents in environments share: tasks, agents in memory and agents in real sandboxes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

import seatrial as vf
from seatrial.env.cli_agent import CliAgentEnv
from seatrial.env.harbor import HarborEnv
from seatrial.env.results import Output, Results
from seatrial.env.rollout import ROLLOUT
from seatrial.sandbox.api import ExecResult, ExecSpec
from seatrial.testing.fake import FakeBackend, FakeSandbox, answer, command_line
from tests.trial.support import python_command, write_task

COMMAND = "run the agent"
REWARD_TXT, REWARD_JSON = "/logs/verifier/reward.txt", "/logs/verifier/reward.json"
COLUMNS = [
    *("sandbox_id", "agent_exit_code", "agent_stdout", "agent_stderr", "agent_completed", "agent_timed_out"),
    *("docker_image", "image_used", "harbor_config", "harbor_task_dir", "interception_base_url", ROLLOUT),
]

FakeAgent = Callable[[ExecSpec, FakeSandbox], Awaitable[ExecResult | None]]


async def idle(_: ExecSpec, __: FakeSandbox) -> None:
    """An agent that does nothing."""


def world(agent: FakeAgent = idle, verdict: Mapping[str, bytes] | None = None, **options: Any) -> FakeBackend:
    """A backend in memory: the agent's command is a coroutine, and the verifier leaves the files of a verdict."""
    left = {REWARD_TXT: b"1"} if verdict is None else verdict

    async def run(spec: ExecSpec, sandbox: FakeSandbox) -> ExecResult:
        if spec.phase == "verifier":
            sandbox.files.update(left)
            return answer("judged")
        if command_line(spec) == COMMAND:
            return await agent(spec, sandbox) or answer()
        return answer(command_line(spec))

    return FakeBackend(run, **options)


async def ask(spec: ExecSpec, *messages: Any, path: str = "/chat/completions", **more: Any) -> tuple[int, Any]:
    """What an agent in memory gets from its model: the status, and the answer."""
    said = [{"role": "user", "content": each} if isinstance(each, str) else each for each in messages]
    headers = {"authorization": f"Bearer {spec.env['OPENAI_API_KEY']}"}
    url = spec.env["OPENAI_BASE_URL"] + path
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json={"model": "placeholder", "messages": said, **more}, headers=headers) as reply,
    ):
        return reply.status, await reply.json()


def text_of(said: tuple[int, Any]) -> str:
    """The text of a chat completion."""
    status, body = said
    assert status == 200, body
    return str(body["choices"][0]["message"]["content"])


def echo(messages: vf.Messages) -> str:
    """A model that says what it was asked."""
    return f"you said {messages[-1]['content']}"


def cli_env(agent: FakeAgent = idle, kind: type[CliAgentEnv] = CliAgentEnv, **options: Any) -> CliAgentEnv:
    """An environment with an agent in memory."""
    options = {"backend": world(agent), "image": "host", "dataset": [{"prompt": "Do it."}], **options}
    return kind(COMMAND, **options)


def harbor_env(folder: Path, kind: type[HarborEnv] = HarborEnv, **options: Any) -> HarborEnv:
    """A HarborEnv in memory on the tasks in a folder."""
    options = {"run_command": COMMAND, "backend": world(), "image": "host", **options}
    return kind(dataset_path=folder, **options)


def evaluate(env: vf.Environment, client: Any = echo, **options: Any) -> Results:
    """All rollouts of an environment, each tried once, within a time that no healthy machine needs."""

    async def bounded() -> Results:
        async with asyncio.timeout(60):
            return await env.evaluate(client, "gpt-4", **{"state_columns": COLUMNS, "retries": 0, **options})

    return asyncio.run(bounded())


def only(results: Results) -> Output:
    """The one output."""
    (output,) = results["outputs"]
    return output


def record_of(output: Output) -> Any:
    """The record of a rollout that is a trial."""
    return output[ROLLOUT].record


def make_tasks(folder: Path, *names: str, **task: Any) -> Path:
    """A folder of tasks; their tests want `right` in /app/answer.txt, their instruction does not say so."""
    for name in names or ("task_1",):
        write_task(folder / name, **{"instruction": "Do it.\n", **task})
    return folder


# An agent of the real sandbox, without any SDK.
ASKING = """
    import json, os, sys, urllib.error, urllib.request

    def ask(text, path="/chat/completions", **more):
        body = {"model": "m", "messages": [{"role": "user", "content": text}], **more}
        headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
        request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + path, json.dumps(body).encode(), headers)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)["choices"][0]["message"]["content"]
        except urllib.error.HTTPError as error:
            return str(error.code)
"""


def real_agent(work: str) -> str:
    """A command for the real sandbox: a program that may `ask` its model."""
    return python_command(f"{ASKING}\n    {work}\n")
