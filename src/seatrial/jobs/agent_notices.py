"""What a user should know of agents and tasks that do not quite go together, before they run anyway."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.tasks.outline import TaskOutline

if TYPE_CHECKING:  # most jobs do without
    from seatrial.model.preset import Preset


def agent_notices(agents: Iterable[AgentOptions], tasks: Sequence[TaskOutline], options: TrialOptions) -> list[str]:
    """Which agents have less memory than they need, cannot use tools of tasks, bring programs, or are not the usual."""
    notices: list[str] = []
    for agent in agents:
        notices += _layer(agent)
        if agent.preset is not None:
            from seatrial.agents.presets import is_shipped, preset_from  # noqa: PLC0415 - as above

            title, preset = agent.title, preset_from(agent.preset, agent.title)
            if preset.source and is_shipped(preset.name):
                notices.append(
                    f"the agent {title!r} is that of {preset.source}, before the one that comes with Seatrial"
                )
            notices += [*_memory(title, preset, tasks, options), *_tools(title, preset, tasks)]
    return notices


def _layer(agent: AgentOptions) -> Iterator[str]:
    """What a layer brings for verifiers to use as well: it is part of the image, so nothing of it is put back."""
    if agent.layer is None:
        return
    from seatrial.images.baking.own_layer import beside_opt  # noqa: PLC0415 - as above

    if found := beside_opt(agent.layer):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield (
            f"the layer of the agent {agent.title!r} brings {found[0]!r}{more} outside of /opt: verifiers take that "
            "for the image's own, so a reward is worth as much as the layer is"
        )


def _memory(title: str, preset: "Preset", tasks: Sequence[TaskOutline], options: TrialOptions) -> Iterator[str]:
    least = preset.least_memory_mb
    if least is None:
        return
    given = ((task, options.memory_mb or task.config.environment.memory_mb) for task in tasks)
    short = [(task, memory) for task, memory in given if memory is not None and memory < least]
    if short:
        task, memory = short[0]
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        yield (
            f"the agent {title!r} takes {least} MB of memory, and {task.id}{more} gives it {memory} MB; --memory "
            f"{least}M gives it enough"
        )


def _tools(title: str, preset: "Preset", tasks: Sequence[TaskOutline]) -> Iterator[str]:
    usable = preset.mcp.transports if preset.mcp else ()
    offered = ((task, server) for task in tasks for server in task.config.environment.mcp_servers)
    unusable = [(task, server) for task, server in offered if server.transport not in usable]
    if unusable:
        task, server = unusable[0]
        more = f" (and {len(unusable) - 1} more)" if len(unusable) > 1 else ""
        what = f"MCP servers by {server.transport}" if preset.mcp else "MCP servers"
        yield f"the agent {title!r} cannot use {what}, and works without {server.name!r} of {task.id}{more}"
    skilled = [task for task in tasks if task.config.environment.skills_dir]
    if skilled and not preset.skills:
        more = f" and {len(skilled) - 1} more" if len(skilled) > 1 else ""
        yield f"the agent {title!r} knows no skills, and works without those of {skilled[0].id}{more}"
