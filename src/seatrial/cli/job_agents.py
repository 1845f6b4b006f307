"""Agents that are added to a stored job: one that it has already is not a second one."""

from collections.abc import Sequence
from typing import Any

from seatrial.errors import JobError
from seatrial.model.job import AGENT_FILES_DIR, AgentOptions

Agent = dict[str, Any]


def with_agents(present: Sequence[Agent], added: Sequence[Agent]) -> list[Agent]:
    """The agents of a job and those that are new to it. Raises JobError for one of another's name that is not it."""
    known = {_title(agent): agent for agent in present}
    for agent in added:
        if differences := _differences(agent, known.get(_title(agent), agent)):
            raise JobError(
                f"the job has an agent {_title(agent)!r} already, and not the same: {'; '.join(differences)}; run a "
                "new job for the other one"
            )
    return [*present, *(agent for agent in added if _title(agent) not in known)]


def _title(agent: Agent) -> str:
    return str(agent.get("label") or agent["name"])


def _differences(agent: Agent, stored: Agent) -> list[str]:
    """Where what is said of an agent is not what the job has; what is not said is the same."""
    return [
        f"{name} was {stored.get(name)!r}, is {agent[name]!r}"
        for name in AgentOptions.model_fields
        if name in agent and _without_digests(agent[name]) != _without_digests(stored.get(name))
    ]


def _without_digests(value: Any) -> Any:
    """What was said of an agent; a job also knows what was in its files and its layer, and checks that by itself."""
    if isinstance(value, dict) and "source" in value:
        return {**value, "digest": None}
    if not isinstance(value, list | tuple):
        return value
    return [{"target": AGENT_FILES_DIR, **files, "digest": None} for files in value]
