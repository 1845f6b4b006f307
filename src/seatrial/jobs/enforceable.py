"""Whether a backend can hold the limits and networks that the tasks of a job ask for, known before the first trial."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import get_args

from seatrial.errors import HostUnsupportedError
from seatrial.model.job import TrialOptions
from seatrial.model.task import Task
from seatrial.sandbox.api import Capabilities, Limit, NetworkMode
from seatrial.trial.place import AS_DECLARED, limits_asked, network_mode

_LIMITS: frozenset[str] = frozenset(get_args(Limit))
_MODES: frozenset[str] = frozenset(get_args(NetworkMode)) - {"host"}


def check_enforceable(tasks: Iterable[Task], options: TrialOptions, capabilities: Capabilities) -> None:
    """Raise HostUnsupportedError, once for all tasks, naming what cannot be enforced here, why, and the choice."""
    able = frozenset(capabilities.limits) | capabilities.networks
    if options.enforcement == "partial" or able >= _LIMITS | _MODES:
        return
    lacking: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        for need in dict.fromkeys(_needs(task, options)):
            if need not in able:
                lacking[need].append(task.id)
    if lacking:
        raise HostUnsupportedError("\n".join(_complaint(lacking, capabilities)))


def _needs(task: Task, options: TrialOptions) -> Iterator[str]:
    config = task.config
    machines = [(config.environment, options)]
    if config.verifier.environment:
        machines.append((config.verifier.environment, AS_DECLARED))
    for machine, limits in machines:
        yield from (name for name, value in limits_asked(machine, limits) if value is not None)
        yield network_mode(machine.network, options)
    if config.agent.network:
        yield network_mode(config.agent.network, options)


def _complaint(lacking: dict[str, list[str]], capabilities: Capabilities) -> Iterator[str]:
    yield f"the tasks ask for what the {capabilities.backend} backend cannot enforce here; nothing has been run:"
    ways: list[str] = []
    for need, tasks in lacking.items():
        named = tasks[0] if len(tasks) == 1 else f"{len(tasks)} tasks, such as {tasks[0]}"
        what = need if need in _LIMITS else f"network {need!r}"
        reason, _, way = capabilities.missing.get(need, "it has no means to").partition("; ")
        ways.append(way or "use another backend (-e)")
        yield f"  {what} ({named}): {reason}"
    yield "a new job with --allow-partial-limits runs them without that, and its records say so; to have it enforced:"
    yield from (f"  {way}" for way in dict.fromkeys(ways))
