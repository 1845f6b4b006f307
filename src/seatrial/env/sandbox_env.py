"""SandboxEnv: a conversation beside a sandbox, one for each rollout, in which the model runs commands by `bash`.

PythonEnv is one in which it writes Python, run by one interpreter in the sandbox (`python_session`).
"""

import json
import shlex
import time
from pathlib import Path
from typing import Any

from seatrial.env.arguments import passes_on
from seatrial.env.hooks import blaming, cleanup, maybe_await, stop
from seatrial.env.messages import Messages, called_tools
from seatrial.env.monitors import OF_SANDBOXES, python_ready_wait_time
from seatrial.env.rollout import State
from seatrial.env.sandbox_client import CommandResult
from seatrial.env.sandbox_mixin import SandboxMixin
from seatrial.env.sandboxes import DEFAULT_IMAGE, WORKDIR, SandboxSettings
from seatrial.env.tool_tables import readable, shortened
from seatrial.env.tools import StatefulToolEnv
from seatrial.errors import SandboxError

_OF_SANDBOX = ("sandbox_id", "sandbox_state", "working_dir")
"""Arguments of tools that the environment gives."""


class SandboxEnv(SandboxMixin, StatefulToolEnv):
    """A rollout with a sandbox: made in `setup_state`, destroyed in the end whatever happens.

    What may be said about the sandbox is in SandboxSettings. The model is offered `bash`; a subclass adds tools, takes
    that one away, or says in `env_response` what else is done with what the model says. A command may take
    `timeout_per_command_seconds`, and has `state["working_dir"]` if that is set. `sandbox_name` has no effect.
    """

    @passes_on(SandboxSettings)
    def __init__(
        self,
        docker_image: str = DEFAULT_IMAGE,
        timeout_per_command_seconds: float = 30,
        *,
        sandbox_name: str = "sandbox-env",
        **kwargs: Any,
    ) -> None:
        settings = SandboxSettings.take_from(kwargs)
        super().__init__(timeout_seconds=settings.seconds_within(kwargs.pop("timeout_seconds", None)), **kwargs)
        self.docker_image = docker_image
        self.sandbox_name = sandbox_name
        self.timeout_per_command_seconds = timeout_per_command_seconds
        self.environment_vars = dict(settings.environment_vars or {})
        self._use_sandboxes(settings)
        self.add_tool(self.bash, args_to_skip=_OF_SANDBOX)
        self.add_monitors(*OF_SANDBOXES)

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, then `post_sandbox_setup`. An override calls this one first."""
        await super().setup_state(state)
        with blaming("get_docker_image"):
            docker_image = await maybe_await(self.get_docker_image(state))
        began = time.perf_counter()
        await self._sandboxes.make(state, docker_image, WORKDIR, self.environment_vars)
        waited = time.perf_counter() - began
        state["sandbox_state"] = {"ready": True, "ready_wait_time": waited, "command_execution_times": []}
        with blaming("post_sandbox_setup"):
            await maybe_await(self.post_sandbox_setup(state))
        return state

    async def get_docker_image(self, state: State) -> str:
        return self.docker_image

    async def post_sandbox_setup(self, state: State) -> None:
        """After the sandbox was made and before the first turn."""

    async def bash(
        self, command: str, sandbox_id: str, sandbox_state: dict[str, Any], working_dir: str | None = None
    ) -> str:
        """Execute `command` in a shell of the sandbox, and see what it writes."""
        began = time.perf_counter()
        result = await self.sandbox_client.execute_command(
            sandbox_id, command, working_dir=working_dir, timeout=self.timeout_per_command_seconds
        )
        sandbox_state["command_execution_times"].append(time.perf_counter() - began)
        if result.timed_out:
            return f"Error: Command timed out after {self.timeout_per_command_seconds}s"
        return readable(result.stdout, result.stderr)

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """What the model gave, and of the sandbox what the tool does not show to it."""
        of_sandbox = {name: state.get(name) for name in _OF_SANDBOX}
        hidden = self.skipped_args.get(tool_name, ())
        return {**tool_args, **{name: value for name, value in of_sandbox.items() if name in hidden}}

    async def env_response(self, messages: Messages, state: State, **kwargs: Any) -> Messages | str:
        """What the tools return. To an answer without a call of one there is nothing to say: the rollout ends."""
        if not called_tools(messages[-1]):
            state["final_env_response"] = []
        return await super().env_response(messages, state, **kwargs)

    @stop
    async def no_tools_called(self, state: State) -> bool:
        """The model has answered without calling a tool, and no `env_response` of a subclass may have an answer."""
        return type(self).env_response is SandboxEnv.env_response and await super().no_tools_called(state)

    @cleanup(priority=-100)
    async def destroy_sandbox(self, state: State) -> None:
        await self._sandboxes.release(state)


_FOLDER = "/tmp/.seatrial-python"  # noqa: S108 - of a sandbox
_PROGRAM = f"{_FOLDER}/session.py"
_REQUEST = f"{_FOLDER}/request.json"
_GRACE_SEC = 5.0
"""How long code has to heed that its time is over, before everything in the sandbox is ended."""
_INSTALL_SEC = 600.0
_NEVER_THERE = (2, 3, 127)
"""The program is not there, nobody answers, there is no python3."""


class PythonEnv(SandboxEnv):
    """A SandboxEnv with the tool `python` instead of `bash`. Variables stay from one call to the next.

    Code may take `timeout_per_command_seconds`. `pip_install_packages` are installed in each sandbox before the first
    turn; there are none unless they are named. When the interpreter is lost, the model is told, and has a new one.
    """

    def __init__(self, pip_install_packages: str = "", max_startup_wait_seconds: float = 30, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.pip_install_packages = pip_install_packages
        self.max_startup_wait_seconds = max_startup_wait_seconds
        self.add_tool(self.python, args_to_skip=("sandbox_id", "sandbox_state", "python_state"))
        self.remove_tool(self.bash)
        self.add_monitors(python_ready_wait_time)

    async def setup_state(self, state: State) -> State | None:
        """Make the sandbox, with the packages. Raises SandboxError."""
        await super().setup_state(state)
        state["python_state"] = {"ready": False, "starts": 0, "execution_count": 0, "ready_wait_time": 0.0}
        if self.pip_install_packages.strip():
            command = f"python3 -m pip install -q {self.pip_install_packages}"
            result = await self.sandbox_client.execute_command(state["sandbox_id"], command, timeout=_INSTALL_SEC)
            if result.exit_code != 0:
                raise SandboxError(f"{command} failed in the sandbox: {result.stderr[-500:]}")
        return state

    async def python(
        self, code: str, sandbox_id: str, sandbox_state: dict[str, Any], python_state: dict[str, Any]
    ) -> str:
        """Execute `code` in a Python interpreter that keeps its variables, and see its output and last value."""
        seconds, wait = self.timeout_per_command_seconds, 0.0
        if not python_state["ready"]:
            began = time.perf_counter()
            await self._start(sandbox_id)
            python_state["ready_wait_time"] += time.perf_counter() - began
            wait = self.max_startup_wait_seconds
            python_state.update(ready=True, starts=python_state["starts"] + 1)
        request = json.dumps({"code": code, "seconds": seconds})
        await self.sandbox_client.upload_content(sandbox_id, request, _REQUEST)
        began = time.perf_counter()
        asking = _command("ask", sandbox_id, _REQUEST, str(wait))
        result = await self.sandbox_client.execute_command(sandbox_id, asking, timeout=seconds + wait + _GRACE_SEC)
        sandbox_state["command_execution_times"].append(time.perf_counter() - began)
        answer = _read(result.stdout)
        if answer is None:
            return self._lost(result, python_state)
        python_state["execution_count"] += 1
        return _said(answer, python_state["execution_count"])

    async def _start(self, sandbox_id: str) -> None:
        program = Path(__file__).with_name("python_session.py").read_text(encoding="utf-8")
        await self.sandbox_client.upload_content(sandbox_id, program, _PROGRAM)  # code may have removed the last one
        await self.sandbox_client.start_background_job(sandbox_id, _command("serve", sandbox_id))

    def _lost(self, result: CommandResult, python_state: dict[str, Any]) -> str:
        """What the model is told when code has ended its interpreter. Raises SandboxError if there never was one."""
        python_state["ready"] = False
        # Once it has answered, it is code of the model that has done away with it: that must not undo the rollout.
        never = python_state["starts"] == 1 and python_state["execution_count"] == 0
        if never and result.exit_code in _NEVER_THERE:
            raise SandboxError(f"no Python interpreter runs in the sandbox: {result.stderr[-500:] or 'none answers'}")
        how = f"did not stop after {self.timeout_per_command_seconds}s" if result.timed_out else "has ended"
        return f"Error: the Python interpreter {how}. The next call starts a new one; all variables are gone."

    def update_tool_args(
        self, tool_name: str, tool_args: dict[str, Any], messages: Messages, state: State, **kwargs: Any
    ) -> Any:
        """What the model gave, and what the tool needs of the rollout."""
        updated = super().update_tool_args(tool_name, tool_args, messages, state, **kwargs)
        return {**updated, "python_state": state["python_state"]} if tool_name == "python" else updated


def _command(what: str, sandbox_id: str, *more: str) -> str:
    return shlex.join(["python3", _PROGRAM, what, f"/tmp/.{sandbox_id}.socket", *more])  # noqa: S108 - of a sandbox


def _read(text: str) -> dict[str, Any] | None:
    """What the interpreter answered; None when it did not. Code in it may have answered anything in its place."""
    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _said(answer: dict[str, Any], number: int) -> str:
    stdout, stderr, result = (answer.get(name) or "" for name in ("stdout", "stderr", "result"))
    written = readable(str(stdout), str(stderr)) if stdout or stderr else ""
    value = str(result).rstrip()
    shown = f"Out[{number}]: {value}" if value and answer.get("status") == "ok" else value
    return shortened("\n".join(part for part in (written, shown) if part) or "(no output)")
