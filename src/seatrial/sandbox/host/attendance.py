"""The shortages that a trial lived through, and whose doing each was, by what each trial has of the resource."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seatrial.errors import SeatrialError
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.host.disks import Resource, Shortage, in_bytes

if TYPE_CHECKING:
    from seatrial.sandbox.host.watch import HostWatch


@dataclass(eq=False, slots=True)
class Episode:
    """A shortage from when it was noticed until it is over. `whose` is found out a moment later."""

    shortage: Shortage
    whose: str = ""
    inquired: bool = False
    looked_into: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def message(self) -> str:
        """What was short, and whose doing that was as far as it is known."""
        return f"{self.shortage.message}{f'; {self.whose}' if self.whose else ''}"


Room = Mapping[tuple[str, Resource], int]
"""How much is left of each resource at each place."""


@dataclass(eq=False, slots=True)
class Attendance:
    """A trial that runs."""

    watch: "HostWatch"
    trial: str
    folder: Path
    room: Room
    """What there was of everything when it began."""
    agent_at_work: Callable[[], bool] = lambda: False
    sandbox: Sandbox | None = None
    disk_place: str | None = None
    episodes: dict[Episode, bool] = field(default_factory=dict)
    """With each, whether the agent was at work when it was noticed."""
    own_doing: str | None = None
    """Set when the trial itself used something up: it is then graded as it is, and its shortage excuses nothing."""

    def furnish(self, sandbox: Sandbox, places: tuple[Path, ...]) -> None:
        """The trial has its sandbox, which keeps its files in the first of `places`."""
        self.sandbox = sandbox
        names = [self.watch.include(place) for place in places]
        self.disk_place = names[0] if names else None

    def notice(self, episode: Episode) -> None:
        if episode not in self.episodes:
            self.episodes[episode] = self.agent_at_work()

    async def look(self) -> None:
        """Look how things stand right now, and wait until it is known whose doing a shortage is."""
        await self.watch.look()
        for episode in list(self.episodes):
            await episode.looked_into.wait()

    @property
    def excuse(self) -> str | None:
        """What this machine was short of meanwhile, unless that was the trial's own doing."""
        if not self.episodes or self.own_doing:
            return None
        return next(iter(self.episodes)).message


# What runs below a process, by the kernel's list: for machines where no control group counts it

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PARENT, _THREADS, _RESIDENT = 1, 17, 21  # fields of /proc/<pid>/stat, counted from behind the name


def threads_below(pid: int) -> int:
    """How many threads the descendants of a process have together."""
    return sum(fields[_THREADS] for fields in _below(pid))


def memory_below(pid: int) -> int:
    """How many bytes of memory the descendants of a process have together; what they share counts for each."""
    return sum(fields[_RESIDENT] for fields in _below(pid)) * _PAGE


def _below(pid: int) -> Iterator[list[int]]:
    pids = [name for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - names only
    found = {each: fields for each in pids if (fields := _fields(each))}
    children = defaultdict(list)
    for each, fields in found.items():
        children[str(fields[_PARENT])].append(each)
    waiting = list(children[str(pid)])
    while waiting:
        each = waiting.pop()
        yield found[each]
        waiting += children[each]


def _fields(pid: str) -> list[int] | None:
    with suppress(OSError, ValueError):
        words = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return [0, *map(int, words[1:])]
    return None


# Whose doing a shortage is: that of the trial that took more than half of the room it found, or of none of this run.
# A trial within a limit of its own is never to blame: more was promised to it than this machine has.

_TIMEOUT_SEC = 10.0
_FAIR_SHARE = 4
_FAIR_BYTES = 10 * 2**30  # what tasks that declare no storage may usually have elsewhere
_SHARE_ALONE, _BYTES_ALONE = 16, 2**30


class Share(NamedTuple):
    """How much of a resource one trial has; `unbounded` when no limit of its own keeps it from taking all."""

    attendance: Attendance
    amount: int
    unbounded: bool

    def is_most_of(self, shortage: Shortage, *, alone: bool = False) -> bool:
        """Whether the trial has more than half of what was left when it began, and more than any task may expect."""
        found = self.attendance.room.get((shortage.place, shortage.resource), shortage.capacity)
        return self.unbounded and self.amount > max(found // 2, fair_amount(shortage, alone=alone))


def fair_amount(shortage: Shortage, *, alone: bool) -> int:
    """What any task may expect to have; less on a machine that is nearly full, for one that has it to itself."""
    share = shortage.capacity // (_SHARE_ALONE if alone else _FAIR_SHARE)
    return min(share, _BYTES_ALONE if alone else _FAIR_BYTES) if shortage.resource == "disk" else share


async def shares_of(shortage: Shortage, attending: Sequence[Attendance]) -> list[Share]:
    """What each trial has of a resource that is short, the largest first; those nobody can measure are not in it."""
    if shortage.resource == "time":
        return []
    found = [
        Share(each, amount, not _bounded(shortage, each.sandbox))
        for each in attending
        if each.sandbox is not None and (amount := await _amount(shortage, each, len(attending))) is not None
    ]
    return sorted(found, key=lambda share: -share.amount)


def _bounded(shortage: Shortage, sandbox: Sandbox) -> bool:
    """Whether a limit of its own keeps a sandbox from taking all.

    Those of processes and memory are mostly ours, made for larger machines: above the capacity they keep nobody from
    anything. One of storage is the task's own, and it may have that much.
    """
    limits = sandbox.limits_enforced
    if shortage.resource == "processes":
        return limits.pids is not None and limits.pids < shortage.capacity
    if shortage.resource == "memory":
        return limits.memory_mb is not None and limits.memory_mb * 2**20 < shortage.capacity
    return limits.storage_mb is not None


async def _amount(shortage: Shortage, each: Attendance, attending: int) -> int | None:
    assert each.sandbox is not None  # noqa: S101 - the caller has looked
    with suppress(SeatrialError, OSError, TimeoutError):
        async with asyncio.timeout(_TIMEOUT_SEC):
            if shortage.resource in ("disk", "inodes"):
                return await _on_disk(shortage, each, each.sandbox)
            return await _running(shortage, each.sandbox, attending)
    return None


async def _on_disk(shortage: Shortage, each: Attendance, sandbox: Sandbox) -> int:
    inside = each.disk_place == shortage.place
    if shortage.resource == "inodes":
        return len((await sandbox.changes()).added) if inside else 0
    stored = _bytes_below(each.folder) if each.watch.place_of(each.folder) == shortage.place else 0
    return stored + ((await sandbox.usage()).disk_bytes or 0 if inside else 0)


async def _running(shortage: Shortage, sandbox: Sandbox, attending: int) -> int | None:
    """Where control groups count nothing, a trial that runs alone is all that runs below this process."""
    if shortage.resource == "memory" and (peak := (await sandbox.usage()).peak_memory_bytes):
        return peak
    if attending > 1:
        return None
    count = threads_below if shortage.resource == "processes" else memory_below
    return count(os.getpid())  # not in a thread: there may be no room for one


def _bytes_below(folder: Path) -> int:
    total = 0
    for top, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(f"{top}/{name}").st_blocks * 512
    return total


def describe(shortage: Shortage, shares: Iterable[Share]) -> str:
    """Who has most of it, or that it is nobody of this run."""
    ranked = list(shares)
    if not ranked:
        return ""
    most, total = ranked[0], sum(share.amount for share in ranked)
    if 2 * total < shortage.capacity:
        return f"the trials that run have {_counted(shortage, total)}, so something else has taken it"
    return f"the largest part is that of trial {most.attendance.trial} ({_counted(shortage, most.amount)})"


def _counted(shortage: Shortage, amount: int) -> str:
    if shortage.resource in ("disk", "memory"):
        return in_bytes(amount)
    return f"{amount:,} {'files' if shortage.resource == 'inodes' else 'processes'}"
