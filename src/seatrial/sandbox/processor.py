"""Processors: for how long processes waited while others used them, what that means for deadlines, and who may begin.

A deadline is about work, and work needs a processor. So it is put off by as long as the work was kept from running, up
to a bound. What counts is the least of three: the time that passed, the time in which one of the processes at least
was ready to run and had to wait, and the time that the processors spent on others. So neither what sleeps nor what
gets in its own way, be it with a hundred threads, has a later deadline.
"""

import asyncio
import math
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol

from seatrial.sandbox.cgroups import Hierarchy, Mount
from seatrial.sandbox.control_group import Version, read

# Our own control groups, whose limits hold for all sandboxes together


class OwnGroup(NamedTuple):
    """A control group that this process is in, in one hierarchy."""

    path: Path
    version: Version

    def number(self, file: str, key: str | None = None) -> int | None:
        """A number from one of its files, behind a key if the file has several; None where there is none."""
        try:
            words = read(f"{self.path}/{file}").split()
            word = words[0] if key is None else words[words.index(key) + 1]
            return int(word)
        except (OSError, ValueError, IndexError):  # not there, or the word "max"
            return None


@lru_cache
def own_groups(controller: str) -> tuple[OwnGroup, ...]:
    """The groups that a controller limits us by, from our own up to the topmost that is visible; found out once."""
    mounts = Hierarchy.here().mounts
    return tuple(group for mount in mounts if controller in mount.controllers for group in _upwards(mount))


def _upwards(mount: Mount) -> list[OwnGroup]:
    own, top = mount.parents[0], mount.parents[-1]
    paths = [path for path in (own, *own.parents) if path == top or path.is_relative_to(top)]
    return [OwnGroup(path, mount.version) for path in paths]


_LEAST_DELAY_SEC, _NEWS_SEC = 0.02, 1.0
_LEAST_LOOK_SEC = 0.2  # the kernel may count what a process ran in steps of 0.01 s
_NEARLY = 0.25  # a processor used for less than a quarter of the time is free for others
_TICKS = os.sysconf("SC_CLK_TCK")
_USER_TIME, _CHILDREN_SYSTEM_TIME, _START_TIME = 11, 14, 19  # fields of /proc/<pid>/stat, counted from behind the name
_IDLE, _IO_WAIT, _STOLEN = 3, 4, 7  # fields of the first line of /proc/stat, counted from behind its name


def processors() -> int:
    """How many processors this process may use: by its affinity, and by the quotas of the control groups it is in."""
    quotas = [_quota(f"{group.path}", group.version) for group in own_groups("cpu")]
    return max(1, math.ceil(min(len(os.sched_getaffinity(0)), *quotas, math.inf)))


def _quota(path: str, version: int) -> float:
    """How many processors a group may keep busy; infinity for as many as it likes."""
    files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    with suppress(OSError, ValueError):  # not there, or the word "max"
        quota, period = (int(word) for file in files for word in read(f"{path}/{file}").split())
        return quota / period if quota > 0 else math.inf
    return math.inf


def machine_busy_sec() -> float:
    """For how long all processors of this machine together have been at work; 0 where the kernel does not tell."""
    with suppress(OSError, ValueError):
        fields = [int(word) for word in read("/proc/stat").partition("\n")[0].split()[1 : _STOLEN + 2]]
        return (sum(fields) - fields[_IDLE] - fields[_IO_WAIT]) / _TICKS
    return 0.0


def stat_times(pid: int) -> tuple[float, float]:
    """When a process was started, in seconds since this machine was, and what it and its waited-for children ran.

    Raises OSError when it is gone.
    """
    fields = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    ran = sum(int(word) for word in fields[_USER_TIME : _CHILDREN_SYSTEM_TIME + 1])
    return int(fields[_START_TIME]) / _TICKS, ran / _TICKS


def _delays_sec(pids: Iterable[int], since: float) -> float:
    """For how long the threads of those processes waited for a processor that were started since then."""
    waited = 0.0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):  # gone meanwhile, or a kernel that does not count it
            if stat_times(pid)[0] >= since:
                for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - names only
                    waited += int(read(f"/proc/{pid}/task/{thread}/schedstat").split()[1]) / 1e9
    return waited


class Counted(Protocol):
    """Processes whose use of processors is counted: a ControlGroup, or a session of plain processes."""

    def processor_times(self) -> tuple[float | None, float | None]:
        """For how many seconds they ran so far, and in how many one of them at least waited; None where unknown."""
        ...

    def members(self) -> set[int]:
        """Those that are alive."""
        ...


class Meter:
    """How much of the processors some processes get from now on, and for how long others kept them waiting.

    `cpu_sec` and `wait_sec` are as of the last `read`; None where nothing can be known.
    """

    def __init__(
        self,
        counted: Counted,
        busy: Callable[[], float] = machine_busy_sec,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counted, self._busy, self._clock = counted, busy, clock
        self._since = time.clock_gettime(time.CLOCK_BOOTTIME) - 1 / _TICKS
        self._start = (clock(), busy(), *counted.processor_times())
        if seat := _seat.get():
            seat.watch(self, clock())
        self.cpu_sec: float | None = None
        self.wait_sec: float | None = None

    @property
    def alive(self) -> bool:
        """Whether one of them is known to run on."""
        return bool(self._counted.members())

    def wanted_sec(self) -> float | None:
        """For how long so far they ran or would have run; None where that is not known."""
        ran, waited = self._counted.processor_times()
        return None if ran is None or waited is None else ran + waited

    def read(self, *, ended: bool = False) -> float:
        """For how long others kept them waiting by now. What those waited that have ended, only control groups know."""
        began, busy, ran, waited = self._start
        ran_now, waited_now = self._counted.processor_times()
        if ran is None or ran_now is None:
            return 0.0
        self.cpu_sec = max(ran_now - ran, 0.0)
        delays = [waited_now - waited] if waited is not None and waited_now is not None else []
        if not ended and (alive := self._counted.members()):
            delays.append(_delays_sec(alive, self._since))
        if delays:
            found = max(delays)
            if found > 0.0:  # else it does not matter what the others did meanwhile
                for_others = max(self._busy() - busy - self.cpu_sec, 0.0) / processors()
                found = min(found, for_others, self._clock() - began)
            self.wait_sec = max(found, self.wait_sec or 0.0)
        return self.wait_sec or 0.0


def processor_use(meter: Meter | None) -> tuple[float | None, float | None]:
    """What a meter has found at the end: the time that they ran, and that they were kept waiting."""
    if meter is None:
        return None, None
    meter.read(ended=True)
    return meter.cpu_sec, meter.wait_sec


@asynccontextmanager
async def deadline(
    timeout_sec: float | None, patience_sec: float | None = None, meter: Meter | None = None
) -> AsyncIterator[None]:
    """As `asyncio.timeout`, later by as long as a meter says that others kept the work waiting, `patience_sec` at most.

    The meter is read when the time is over, and again when what was added is over too.
    """
    if timeout_sec is None or not patience_sec or meter is None:
        async with asyncio.timeout(timeout_sec):
            yield
        return
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with asyncio.timeout(None) as timeout:
        alarms: list[asyncio.TimerHandle] = []

        def decide(before: float) -> None:
            granted = min(meter.read(), patience_sec)
            if granted >= before + _LEAST_DELAY_SEC:
                alarms[:] = [loop.call_at(began + timeout_sec + granted, decide, granted)]
            else:  # not at once: on a busy machine what has ended in time may be heard of late
                grace = _LEAST_DELAY_SEC if meter.alive else _NEWS_SEC
                alarms[:] = [loop.call_later(grace, lambda: timeout.reschedule(loop.time()))]

        alarms.append(loop.call_at(began + timeout_sec, decide, 0.0))
        try:
            yield
        finally:
            alarms[0].cancel()


@dataclass(eq=False, slots=True)
class _Seat:
    """A place of a verifier, with the meter of its command as soon as there is one."""

    alone: bool
    meter: Meter | None = None
    seen: tuple[float, float] = (math.inf, 0.0)

    def watch(self, meter: Meter, now: float) -> None:
        self.meter, self.seen = meter, (now, meter.wanted_sec() or 0.0)

    def demand(self, now: float) -> float:
        """How many processors it would have used since the last look; one as long as nothing is known."""
        wanted = self.meter.wanted_sec() if self.meter else None
        if wanted is None or now - self.seen[0] < _LEAST_LOOK_SEC:
            return 1.0
        (then, before), self.seen = self.seen, (now, wanted)
        return (wanted - before) / (now - then)


_seat: ContextVar[_Seat | None] = ContextVar("seat", default=None)


class VerifierSeats:
    """Lets in as many verifiers at once as there are processors, who comes first; more for each that does not use one.

    One that wants to be alone waits until the others have left, and keeps later ones waiting.
    """

    def __init__(self, count: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock = count, clock
        self._there, self._looked = 0, -math.inf
        self._taken: set[_Seat] = set()
        self._waiting: deque[tuple[asyncio.Future[None], _Seat]] = deque()

    @asynccontextmanager
    async def take(self, *, alone: bool = False) -> AsyncIterator[None]:
        """A seat for the length of a block, in which one meter is started."""
        seat = _Seat(alone)
        await self._enter(seat)
        token = _seat.set(seat)
        try:
            yield
        finally:
            _seat.reset(token)
            self._leave(seat)

    async def _enter(self, seat: _Seat) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, seat))
        self._let_in()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(seat)  # let in and cancelled at the same moment
            else:
                with suppress(ValueError):  # it was passed over
                    self._waiting.remove((turn, seat))
                self._let_in()
            raise

    def _leave(self, seat: _Seat) -> None:
        self._taken.remove(seat)
        self._let_in()

    def _let_in(self, unused: int = 0) -> None:
        if not self._waiting:
            return
        room = max(self._seats() - len(self._taken), unused)
        while self._waiting and not any(seat.alone for seat in self._taken):
            turn, seat = self._waiting[0]
            if self._taken if seat.alone else room <= 0:
                return
            self._waiting.popleft()
            if not turn.done():  # else it was cancelled, and has not had its turn to go
                self._taken.add(seat)
                room -= 1
                turn.set_result(None)

    def look(self) -> None:
        """Let in one more for each processor that those who are in had no use for since the last look."""
        if self._waiting:
            now = self._clock()
            demand = sum(seat.demand(now) for seat in self._taken)
            self._let_in(int(self._seats() - demand + _NEARLY))

    def _seats(self) -> int:
        """How many there are. Quotas of control groups may change, but not for each verifier."""
        now = self._clock()
        if not self._count and now - self._looked >= _LEAST_LOOK_SEC:
            self._there, self._looked = processors(), now
        return self._count or self._there
