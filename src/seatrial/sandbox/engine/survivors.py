"""Which processes of a container are the agent's: all but the first, and but what stands between us and a command.

Where a process stands is no proof of whose it is: an agent that replaces /bin/sh, or takes over a shell of ours, stands
between us and a command too. But what is really ours ends with the command, as soon as nobody writes any more. So while
others are there, as many as our commands have around them pass for ours; where they are all there is, they have to go.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from seatrial.sandbox.engine.command import AROUND, DEPTH
from seatrial.sandbox.process_names import RESTLESS, shown_name

_LOOKS = 10
_FAREWELL_SEC = 2.0


@dataclass(frozen=True, slots=True)
class Process:
    """One row of an engine's list."""

    pid: int
    parent: int
    state: str
    name: str


@dataclass(frozen=True, slots=True)
class FoundProcesses:
    """Names of processes: those of the agent, and those that stand where ours do."""

    agents: tuple[str, ...] = ()
    between: tuple[str, ...] = ()


class Around(Protocol):
    """A command of ours that has processes around it, until nobody can write its output any more."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        ...

    async def wait_until_closed(self) -> None:
        """Wait until nobody can write any more."""
        ...


class Listing(Protocol):
    """Who can be asked about the processes of a container."""

    async def processes(self) -> FoundProcesses:
        """Who is in the engine's list."""
        ...

    async def has_more_than_its_first_process(self) -> bool:
        """Whether the kernel counts others."""
        ...


def row(columns: Sequence[str]) -> Process:
    """A row of number, parent, state and name, which may be empty or take several columns."""
    pid, parent, state, *name = columns
    return Process(int(pid), int(parent), state, shown_name(" ".join(name)))


def sort_out(rows: Sequence[Process], first: int) -> FoundProcesses:
    """Whoever was started from outside has the same parent as the first process; some generations below are ours."""
    outside = next((each.parent for each in rows if each.pid == first), 0)
    between: set[int] = set()
    generation = {each.pid for each in rows if each.parent == outside and each.pid != first}
    for _ in range(DEPTH + 1):
        between |= generation
        generation = {each.pid for each in rows if each.parent in generation}
    living = [each for each in rows if each.pid != first and _is_alive(each, first)]
    return FoundProcesses(
        tuple(sorted(each.name for each in living if each.pid not in between)),
        tuple(sorted(each.name for each in living if each.pid in between)),
    )


def _is_alive(process: Process, first: int) -> bool:
    """Whether it runs. One whose first thread has ended looks dead, though others of its threads may go on.

    Docker's list marks those with an `l`. Podman's does not; but the first process lets the kernel bury its children at
    once, so none of them is ever seen dead.
    """
    return not process.state.startswith(("Z", "X")) or "l" in process.state or process.parent == first


async def names(container: Listing, commands: Sequence[Around]) -> tuple[str, ...]:
    """What the agent has running, by name. `commands` are those of ours whose output is still open."""
    found = await container.processes()
    if any(command.running for command in commands):
        return _unexplained(found, commands)
    if not found.agents and found.between:
        found = await _see_off(container, commands)
    if found.agents:
        return _unexplained(found, commands)
    if found.between:
        return found.between
    return (RESTLESS,) if await _is_restless(container) else ()


def _unexplained(found: FoundProcesses, commands: Sequence[Around]) -> tuple[str, ...]:
    """The agent's, and those between if our commands do not explain so many."""
    explained = len(found.between) <= AROUND * len(commands)
    return found.agents if explained else tuple(sorted(found.agents + found.between))


async def _see_off(container: Listing, commands: Sequence[Around]) -> FoundProcesses:
    """Let what is ours go; returns who is there then."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_SEC):
            for command in commands:
                await command.wait_until_closed()
    found = await container.processes()
    for _ in range(_LOOKS):
        if found.agents or not found.between:
            break
        found = await container.processes()
    return found


async def _is_restless(container: Listing) -> bool:
    """Whether the kernel counts more than the list has, look after look.

    An engine asks who is there first, and about each of them then: who has moved on meanwhile is in no list.
    """
    for _ in range(_LOOKS):
        if not await container.has_more_than_its_first_process():
            return False
    return True
