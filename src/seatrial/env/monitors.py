"""How an agent fared, as metrics of weight 0 that environments report beside their rewards."""

from seatrial.env.state import State


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


MONITORS = (num_turns, sandbox_oom, sandbox_timeout, agent_timeout, agent_error)
