"""How a rollout went, as metrics that environments report by themselves beside their rewards."""

from typing import Any

from seatrial.env.rubric import Rubric
from seatrial.env.state import State


class MonitorRubric(Rubric):
    """A rubric of metrics only. The reward is not its concern, also where nothing else sets it."""

    async def score_rollout(self, state: State) -> None:
        """Set the metrics of a state; its reward stays as it is."""
        reward = state["reward"]
        await super().score_rollout(state)
        state["reward"] = reward


async def num_turns(state: State) -> float:
    """How often the model answered."""
    return float(len(state["trajectory"]))


async def agent_timeout(state: State) -> float:
    """Whether the agent's time ran out."""
    return float(bool(state.get("agent_timed_out")))


async def agent_error(state: State) -> float:
    """Whether the agent ended with an exit code other than 0."""
    return float(bool(state.get("agent_exit_code")))


async def sandbox_oom(state: State) -> float:
    """Whether something in the sandbox was ended for want of memory."""
    return float(bool(state.get("sandbox_oom")))


async def sandbox_timeout(state: State) -> float:
    """Whether the time of the sandbox itself ran out; the rollout's own time ends first."""
    return float(bool(state.get("sandbox_timeout")))


async def sandbox_ready_wait_time(state: State) -> float:
    """How many seconds it took to make the sandbox."""
    return float(_known(state, "sandbox_state").get("ready_wait_time", 0.0))


async def sandbox_command_execution_time(state: State) -> float:
    """How many seconds a command of the model's took on average; 0 without any."""
    seconds = _known(state, "sandbox_state").get("command_execution_times")
    return sum(seconds) / len(seconds) if seconds else 0.0


async def python_ready_wait_time(state: State) -> float:
    """How many seconds it took to start the interpreters of a rollout; 0 if the model ran no code."""
    return float(_known(state, "python_state").get("ready_wait_time", 0.0))


OF_AGENTS = (sandbox_oom, sandbox_timeout, agent_timeout, agent_error)
OF_SANDBOXES = (sandbox_ready_wait_time, sandbox_command_execution_time)


def _known(state: State, name: str) -> dict[str, Any]:
    """What an environment keeps of a rollout under a name; a subclass may have put something else there."""
    table = state.get(name)
    return table if isinstance(table, dict) else {}
