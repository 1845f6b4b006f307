"""PythonEnv: a conversation in which the model writes Python, run by one interpreter in the rollout's sandbox."""

import json
import shlex
import time
from pathlib import Path
from typing import Any

from seatrial.env.messages import Messages
from seatrial.env.monitors import python_ready_wait_time
from seatrial.env.sandbox_env import SandboxEnv
from seatrial.env.sandbox_values import CommandResult
from seatrial.env.state import State
from seatrial.env.tool_output import readable, shortened
from seatrial.errors import SandboxError

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
