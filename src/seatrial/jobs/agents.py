"""The agents of a job as it is stored: how they are set up, the files they bring along, commands that can be found."""

import os
from collections.abc import Iterable, Iterator

from seatrial.agents.api import with_own_setup
from seatrial.agents.command_line import check_command
from seatrial.agents.files import have_changed, lock_files
from seatrial.errors import JobError
from seatrial.model.job import AgentOptions, JobSpec


def with_locked_agents(spec: JobSpec) -> JobSpec:
    """The spec with each agent as `locked_agent` has it. Raises UsageError for files or a command that cannot be."""
    if spec.trial.backend != "local":  # there, commands run on this machine
        for agent in spec.agents:
            check_command(agent)
    agents = tuple(map(locked_agent, spec.agents))
    if spec.trial.backend == "local":
        _refuse_trees(agents)
    return spec.model_copy(update={"agents": agents})


def _refuse_trees(agents: Iterable[AgentOptions]) -> None:
    """Where commands run on this machine, there is no image to lay a tree over."""
    for agent in agents:
        if agent.recipe or agent.layer:
            raise JobError(
                f"the agent {agent.title!r} runs from a tree that is laid over an image, and the local backend has no "
                "images; use the embedded, docker or podman backend"
            )


def locked_agent(agent: AgentOptions) -> AgentOptions:
    """The agent with the set-up that it names itself, and with what its files are now. Raises UsageError."""
    agent = with_own_setup(agent)
    if agent.layer is not None:
        from seatrial.images.baking.own_layer import lock_layer  # noqa: PLC0415 - most agents bring none

        agent = agent.model_copy(update={"layer": lock_layer(agent.layer)})
    if not agent.files:
        return agent
    files = tuple(map(lock_files, agent.files))
    folders = [each.target for each in files if os.path.isdir(each.source)]  # noqa: PTH112 - a quick look, by a path that stays as it was named
    if repeated := {target for target in folders if folders.count(target) > 1}:
        raise JobError(
            f"agent {agent.title!r}: more than one folder goes to {min(repeated)}; say where the others go, as in "
            f"--agent-files {files[-1].source}:/agent-2"
        )
    return agent.model_copy(update={"files": files})


def changed_agents(agents: Iterable[AgentOptions]) -> list[str]:
    """The files and layers of agents that are not what they were when the job began, one line each."""
    return [line for agent in agents for line in _changed(agent)]


def _changed(agent: AgentOptions) -> Iterator[str]:
    for files in filter(have_changed, agent.files):
        yield f"agents.{agent.title}.files: {files.source} has changed, or is not there any more"
    if agent.layer is not None:
        from seatrial.images.baking.own_layer import has_changed  # noqa: PLC0415 - most agents bring none

        if has_changed(agent.layer):
            yield f"agents.{agent.title}.layer: {agent.layer.source} has changed, or is not there any more"
