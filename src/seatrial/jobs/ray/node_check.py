"""What a job needs of a node and is not sent there: plug-ins, and directories that stand for images."""

import os
from collections.abc import Iterator

from seatrial.agents.api import ENTRY_POINTS as AGENTS
from seatrial.agents.api import make_agent, registered_name
from seatrial.backends.named import AUTO
from seatrial.backends.named import ENTRY_POINTS as BACKENDS
from seatrial.errors import NodeUnfitError
from seatrial.images.choice import plan_named
from seatrial.jobs.ray.wire import RunnerSettings
from seatrial.model.job import TrialOptions
from seatrial.plugins import load_plugin, plugin_names


def check_here(settings: RunnerSettings) -> None:
    """Raise NodeUnfitError that names what this node has not got, and UsageError for an agent that cannot be made."""
    if missing := list(_missing_plugins(settings)):
        raise NodeUnfitError(
            f"it has no {' and no '.join(missing)}; install the plug-in where that node's Ray runs, as it is installed "
            "here"
        )
    for folder in _folders(settings.trial):
        if not os.path.isdir(folder):  # noqa: PTH112 - a quick look
            raise NodeUnfitError(
                f"there is no directory {folder}, which the run names as an image; put it on a disk that all nodes "
                "share, or make an image of it with `seatrial images load` and name that"
            )
    for agent in settings.agents:
        if agent.files:  # they are not here yet, and making it may take them
            load_plugin(AGENTS, registered_name(agent))
        else:
            make_agent(agent)


def _missing_plugins(settings: RunnerSettings) -> Iterator[str]:
    backend = settings.trial.backend
    if backend != AUTO and backend not in plugin_names(BACKENDS):
        yield f"sandbox backend {backend!r}"
    for name in dict.fromkeys(registered_name(each) for each in settings.agents):
        if name not in plugin_names(AGENTS):
            yield f"agent {name!r}"
    if settings.model.upstream:
        from seatrial.gateway.upstreams.open import missing_plugin  # noqa: PLC0415 - slow, and only needed with a model

        if missing := missing_plugin(settings.model.upstream):
            yield f"upstream {missing!r}"


def _folders(options: TrialOptions) -> list[str]:
    """The directories that a run names as images."""
    named = [options.image] if options.image != "auto" else list(options.image_map.values())
    return [plan.name for plan in map(plan_named, named) if plan.kind == "directory"]
