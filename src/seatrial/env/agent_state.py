"""AgentState: what CliAgentEnv itself has to know of an agent under way, kept on its rollout."""

import logging
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.state import State, rollout_of
from seatrial.env.workplace import Workplace
from seatrial.errors import HookError, ProviderError

if TYPE_CHECKING:  # all dialects of models, which nobody needs before the first rollout
    from seatrial.env.agent_run import AgentRun
    from seatrial.env.interception import InterceptedTurn, Interception, RolloutEnded
    from seatrial.env.sandbox_client import SandboxClient
    from seatrial.gateway.access import OpenAccess

_MAX_OUTPUT_BYTES = 2**20
_MAX_TOLD = 1000
_CRASHED = "rollout of %s: the agent ended with exit code %s after %.1f s; stderr ends with: %s"

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class AgentState:
    """An agent and its way to the loop. `variables` are those it is started with."""

    interception: "Interception"
    workplace: Workplace
    model: AsyncExitStack = field(default_factory=AsyncExitStack)
    access: "OpenAccess | None" = None
    variables: Mapping[str, str] = field(default_factory=dict)
    run: "AgentRun | None" = None
    turn: "InterceptedTurn | None" = None

    @property
    def model_variables(self) -> Mapping[str, str]:
        """The variables by which the agent finds its model."""
        return self.access.variables if self.access else {}

    async def close_model(self) -> None:
        """Close the agent's way to its model; another one may be opened."""
        await self.model.aclose()

    def adopt(self, state: State, client: "SandboxClient") -> None:
        """Take the background job that an override of `start_agent` has started for the agent, if it started one."""
        from seatrial.env.agent_run import AgentRun, run_job  # noqa: PLC0415 - see the top
        from seatrial.env.interception import RolloutEnded  # noqa: PLC0415 - see the top

        job = state.get("background_job")
        if self.run is None and job is not None:
            self.run = AgentRun(self.interception, run_job(client, job, self.workplace.folder / "agent"))
            rollout_of(state).resources.push_async_callback(self.run.stop, RolloutEnded(503, "the rollout is over"))

    async def end(self, state: State, deadline_sec: float | None) -> None:
        """See the agent to its end, in the way that the end of its rollout calls for, and close its way to the model.

        How it ended is on the state then. Raises what kept the agent from coming to its end, if that was our failure.
        """
        from seatrial.env.interception import RolloutEnded  # noqa: PLC0415 - see the top

        if self.run is None:
            await self.model.aclose()
            return
        if state["error"] is not None:
            await self.run.stop(ProviderError(f"the rollout has failed: {state['error']}"))
        elif state.get("timed_out"):
            state["error"] = await self._silence()
            await self.run.stop(RolloutEnded(408, "the time of the rollout is over"), by="timed_out")
        elif state.get("agent_completed") and not self.run.over.is_set():  # somebody says that it need not go on
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
            end = state["agent_stderr"][-_MAX_TOLD:].strip() or "nothing"
            _log.warning(_CRASHED, state["task"], result.exit_code, result.duration_sec, end)

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


def _why(state: State) -> "RolloutEnded":
    from seatrial.env.interception import RolloutEnded  # noqa: PLC0415 - see the top

    if state.get("prompt_too_long"):
        return RolloutEnded(400, "the prompt exceeds the maximum context length of the model (context_length_exceeded)")
    return RolloutEnded(429, f"the rollout has ended ({state['stop_condition']}): there are no more answers")


def _tail(path: Path) -> str:
    """The end of a file, where an agent that fails says why."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _MAX_OUTPUT_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
