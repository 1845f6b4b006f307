"""The agent of a rollout: where it works, its way to the model, and how it starts and ends.

`agent_run` has what is at work then; it is imported with the first agent.
"""

import logging
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seatrial.agents.api import AgentLaunch
from seatrial.env.rollout import State, rollout_of
from seatrial.errors import HookError, ProviderError
from seatrial.model.record import AgentResult
from seatrial.sandbox.api import ExecSpec, Network, Sandbox
from seatrial.untrusted.files import read_end

if TYPE_CHECKING:  # an HTTP server and client, and all dialects of models: the first rollout imports them
    from seatrial.env.agent_run import AgentRun, InterceptedTurn, Interception
    from seatrial.env.sandbox_client import SandboxClient
    from seatrial.gateway.access import ModelAccess, OpenAccess
    from seatrial.gateway.session import Keys


_MAX_OUTPUT_BYTES = 2**20
_MAX_TOLD = 1000
_CRASHED = "rollout of %s: the agent ended with exit code %s after %.1f s; %s"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RolloutEnded:
    """Why an agent gets no more answers, in the form of a provider's error."""

    status: int
    message: str


class Workplace(Protocol):
    """What CliAgentEnv needs of the place where an agent works."""

    @property
    def folder(self) -> Path:
        """Where the agent's files on this machine are."""
        ...

    def open_model(self, port: int) -> "AbstractAsyncContextManager[OpenAccess | None]":
        """The agent's way to its model, by a listener inside the sandbox; port 0 takes a free one."""
        ...

    async def run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        """Run the agent's command to its end. Raises TrialError when the machinery fails."""
        ...


class PlainWorkplace(NamedTuple):
    """A sandbox for an agent that has no task."""

    sandbox: Sandbox
    network: Network
    folder: Path
    model: "ModelAccess"
    model_name: str | None
    keys: "Keys" = "own"

    @asynccontextmanager
    async def open_model(self, port: int) -> AsyncIterator["OpenAccess | None"]:
        listener = await self.sandbox.listen(port)
        async with self.model.open(listener, self.folder, self.model_name, keys=self.keys) as access:
            yield access

    async def run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        from seatrial.trial.work import agent_result  # noqa: PLC0415 - much, and only for an agent at work

        logs = self.folder / "agent"
        logs.mkdir(exist_ok=True)
        ended = await self.sandbox.exec(
            ExecSpec(
                launch.argv,
                env=launch.env,
                cwd=launch.cwd,
                network=self.network,
                stdout_path=logs / "stdout.txt",
                stderr_path=logs / "stderr.txt",
            )
        )
        if access is not None:
            await access.session.check_end(timed_out=ended.timed_out)
        return agent_result(ended)


@dataclass(eq=False, slots=True)
class AgentState:
    """An agent and its way to the loop."""

    interception: "Interception"
    workplace: Workplace
    model: AsyncExitStack = field(default_factory=AsyncExitStack)
    access: "OpenAccess | None" = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Those that the agent is started with."""
    run: "AgentRun | None" = None
    turn: "InterceptedTurn | None" = None

    @property
    def model_variables(self) -> Mapping[str, str]:
        return self.access.variables if self.access else {}

    def start(self, state: State, running: Coroutine[Any, Any, AgentResult]) -> None:
        """Run the agent while the rollout's loop answers it; with the rollout's resources it is ended at the latest."""
        from seatrial.env.agent_run import AgentRun  # noqa: PLC0415 - see the top

        self.run = AgentRun(self.interception, running)
        rollout_of(state).resources.push_async_callback(self.run.stop, RolloutEnded(503, "the rollout is over"))

    def adopt(self, state: State, client: "SandboxClient") -> None:
        """Take the background job that an override of `start_agent` has started for the agent, if it started one."""
        from seatrial.env.agent_run import run_job  # noqa: PLC0415 - see the top

        job = state.get("background_job")
        if self.run is None and job is not None:
            self.start(state, run_job(client, job, self.workplace.folder / "agent"))

    async def end(self, state: State, deadline_sec: float | None) -> None:
        """See the agent to its end, in the way that the end of its rollout calls for, and close its way to the model.

        How it ended is on the state then. Raises what kept the agent from coming to its end, if that was our failure.
        """
        if self.run is None:
            await self.model.aclose()
            return
        if state["error"] is not None:
            await self.run.stop(ProviderError(f"the rollout has failed: {state['error']}"))
        elif state.get("timed_out"):
            state["error"] = await self._silence()
            await self.run.stop(RolloutEnded(408, "the time of the rollout is over"), by="timed_out")
        elif state.get("agent_completed") and not self.run.over.is_set():  # by an override of check_agent_completed
            await self.run.stop(_why(state))
        else:
            await self.run.wind_down(_why(state), deadline_sec)
        await self.model.aclose()
        state["agent_completed"] = True
        for name in ("stdout", "stderr"):
            state[f"agent_{name}"] = _tail(self.workplace.folder / "agent" / f"{name}.txt")
        result = self.run.result()
        state["agent_exit_code"], state["agent_timed_out"] = result.exit_code, result.status == "timed_out"
        if result.status != "timed_out" and result.exit_code:  # one that we have ended has none
            _log.warning(_CRASHED, state["task"], result.exit_code, result.duration_sec, _last_words(state))

    async def _silence(self) -> ProviderError | None:
        """The model's failure, if it owed the agent an answer when its time was over."""
        try:
            if self.access is not None:
                await self.access.session.check_end(timed_out=True)
        except ProviderError as error:
            return error
        return None


def agent_of(state: State) -> AgentState:
    """The agent of a rollout. Raises HookError for one that has none yet."""
    agent = rollout_of(state).agent
    if agent is None:
        raise HookError("the rollout has no agent yet: an override of setup_state calls that of CliAgentEnv first")
    return agent


def _why(state: State) -> RolloutEnded:
    if state.get("prompt_too_long"):
        return RolloutEnded(400, "the prompt exceeds the maximum context length of the model (context_length_exceeded)")
    return RolloutEnded(429, f"the rollout has ended ({state['stop_condition']}): there are no more answers")


def _last_words(state: State) -> str:
    """What an agent wrote last: to stderr, or to stdout, where many send their errors too."""
    for name in ("stderr", "stdout"):
        if end := state[f"agent_{name}"].strip()[-_MAX_TOLD:]:
            return f"{name} ends with: {end}"
    return "it wrote nothing"


def _tail(path: Path) -> str:
    """The end of a file, where an agent that fails says why."""
    try:
        return read_end(path, _MAX_OUTPUT_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""
