"""The agents of a job, made from their options."""

from collections.abc import Iterable

from seatrial.agents.api import ENTRY_POINTS, Agent
from seatrial.errors import UsageError
from seatrial.model.job import AgentOptions
from seatrial.plugins import load_plugin


def make_agents(options: Iterable[AgentOptions]) -> dict[str, Agent]:
    """Agents by their titles. Raises UsageError for one that does not exist or cannot use its options."""
    return {each.title: make_agent(each) for each in options}


def make_agent(options: AgentOptions) -> Agent:
    """One agent. Raises UsageError when it does not exist or cannot use its options."""
    factory = load_plugin(ENTRY_POINTS, options.name)
    try:
        agent: Agent = factory(options)
    except UsageError:
        raise
    except Exception as error:  # a stranger's plug-in may fail in any way
        raise UsageError(f"the agent {options.title!r} cannot be made: {type(error).__name__}: {error}") from error
    return agent
