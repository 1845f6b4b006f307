"""HostWatch: looks after this machine while trials run, several times a second, and remembers what ran out.

Trials come in by `attend`: while something is short they wait, and each notes what is short while it runs
(`attendance.py`). A trial that has used up most of something has its agent ended, so that the others can go on.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from seatrial.errors import HostExhaustedError, SeatrialError
from seatrial.sandbox.host.attendance import Attendance, Episode, Room, describe, fair_amount, shares_of
from seatrial.sandbox.host.disks import Disk, Gauge, Shortage
from seatrial.sandbox.processor import VerifierSeats

Company = Literal["others", "none"]
"""Beside whom a trial runs; one that runs with `none` cannot blame a neighbour."""

USUAL_WAIT_SEC = 600.0
SAMPLE_SEC = 0.25
_FAST_SEC = 0.02
_ONCE_MORE_SEC = 2.0


class HostWatch:
    """The watch over this machine of one event loop. It rests while nobody is in and nobody waits."""

    def __init__(self, gauges: Sequence[Gauge] | None = None) -> None:
        self.seats = VerifierSeats()
        """Where the verifiers of all trials of this event loop have to sit while they work."""
        self._given = gauges
        self._gauges: list[Gauge] = []
        self._disks: dict[int, Disk] = {}
        self._inside: dict[Attendance, None] = {}
        self._users = 0
        self._open: dict[str, Episode] = {}
        self._room, self._changed = asyncio.Event(), asyncio.Event()
        self._room.set()
        self._door = asyncio.Lock()
        self._lone: Attendance | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sampled = 0.0
        self._last_left: Room | None = None
        self._inquiries: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def attend(
        self, trial: str, folder: Path, company: Company = "others", longest_sec: float = USUAL_WAIT_SEC
    ) -> AsyncIterator[Attendance]:
        """Let a trial in, whose files go below `folder`. Raises HostExhaustedError after so long without room."""
        self._begin_use(folder)
        try:
            await self.wait_for_room(longest_sec)
            attendance = await self._let_in(trial, folder, company)
            try:
                yield attendance
            finally:
                del self._inside[attendance]
                self._lone = None if self._lone is attendance else self._lone
                self._changed.set()
        finally:
            self._end_use()

    async def _let_in(self, trial: str, folder: Path, company: Company) -> Attendance:
        async with self._door:  # one after the other: whoever wants to be alone keeps the next ones waiting
            while self._lone or (company == "none" and self._inside):
                self._changed.clear()
                await self._changed.wait()
            attendance = Attendance(self, trial, folder, self._left())
            self._inside[attendance] = None
            self._lone = attendance if company == "none" else None
        return attendance

    @contextmanager
    def guarding(self, folder: Path) -> Iterator[None]:
        """Keep watch for the length of a block, over the file system of that folder too."""
        self._begin_use(folder)
        try:
            yield
        finally:
            self._end_use()

    @property
    def shortage(self) -> str | None:
        return "; ".join([episode.message for episode in self._open.values()]) if self._open else None

    async def wait_for_room(self, longest_sec: float = USUAL_WAIT_SEC) -> None:
        """Return when nothing is short. Raises HostExhaustedError when something has been for `longest_sec` seconds."""
        if self._room.is_set():
            return
        try:
            await asyncio.wait_for(self._room.wait(), longest_sec)
        except TimeoutError:
            raise HostExhaustedError(f"no trial could start for {longest_sec:g} s: {self.shortage}") from None

    def _begin_use(self, folder: Path) -> None:
        self._users += 1
        if self._users == 1:
            if self._given is None:
                self._gauges = _gauges_of_this_machine()
                self.include(Path(tempfile.gettempdir()))
            else:
                self._gauges = list(self._given)
            self._tick()
        self.include(folder)

    def _end_use(self) -> None:
        self._users -= 1
        if not self._users:
            self._rest()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for gauge in (*self._gauges, *self._disks.values()):
            gauge.close()
        for inquiry in self._inquiries:
            inquiry.cancel()
        self._gauges, self._disks = [], {}
        self._open.clear()
        self._sampled = 0.0
        self._room.set()

    def include(self, folder: Path) -> str | None:
        """Look after the file system of a folder too; returns where it is mounted, None for a folder that is gone."""
        with suppress(OSError):
            device = folder.stat().st_dev
            if device not in self._disks:
                disk = self._disks[device] = Disk(folder)
                self._read(disk)
            return self._disks[device].place
        return None

    def place_of(self, folder: Path) -> str | None:
        """Where the file system of a folder is mounted, if it is looked after."""
        with suppress(OSError):
            disk = self._disks.get(folder.stat().st_dev)
            return disk.place if disk else None
        return None

    def _left(self) -> Room:
        """How much is left of everything; the same for all who come between two looks."""
        if self._last_left is None:
            gauges = (*self._gauges, *self._disks.values())
            self._last_left = {(each.place, name): left for each in gauges for name, left in each.left().items()}
        return self._last_left

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        for disk in self._disks.values():
            self._read(disk)
        if loop.time() >= self._sampled + SAMPLE_SEC:
            self.sample(loop.time())
        lasts = min((disk.lasts_sec() for disk in self._disks.values()), default=SAMPLE_SEC)
        self._timer = loop.call_later(max(_FAST_SEC, min(lasts, SAMPLE_SEC)), self._tick)

    async def look(self) -> None:
        """Return when everything has been looked at since the call; those who come close together share one look."""
        loop, asked = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        if self._sampled + _FAST_SEC > asked:
            await asyncio.sleep(self._sampled + _FAST_SEC - asked)
        if self._sampled <= asked and self._users:
            self.sample(loop.time())

    def sample(self, now: float) -> None:
        self._sampled = now
        self.seats.look()
        for gauge in (*self._gauges, *self._disks.values()):
            self._read(gauge)

    def _read(self, gauge: Gauge) -> None:
        with suppress(OSError):  # out of descriptors, or a file system that is gone: the next look may be luckier
            self._note(gauge, gauge.read())

    def _note(self, gauge: Gauge, shortage: Shortage | None) -> None:
        self._last_left = None
        if shortage is None or shortage.passed:
            self._open.pop(gauge.place, None)
        if shortage is not None:
            episode = self._open.get(gauge.place) or Episode(shortage)
            if not shortage.passed:
                self._open[gauge.place] = episode
            for each in self._inside:
                each.notice(episode)
            if not episode.inquired:
                self._inquire(episode)
        (self._room.clear if self._open else self._room.set)()

    def _inquire(self, episode: Episode) -> None:
        episode.inquired = True
        task = asyncio.get_running_loop().create_task(self._look_into(episode))
        self._inquiries.add(task)
        task.add_done_callback(self._inquiries.discard)

    async def _look_into(self, episode: Episode) -> None:
        """Find out whose doing a shortage is, again and again until it is over."""
        try:
            while True:
                await self._blame(episode)
                episode.looked_into.set()
                await asyncio.sleep(_ONCE_MORE_SEC)
                if episode not in self._open.values():
                    return
        finally:
            episode.looked_into.set()

    async def _blame(self, episode: Episode) -> None:
        inside = list(self._inside)
        shares = await shares_of(episode.shortage, inside)
        episode.whose = describe(episode.shortage, shares) or episode.whose
        for share in shares:
            each = share.attendance
            if each.own_doing is None and each in self._inside:
                if share.is_most_of(episode.shortage, alone=each is self._lone):
                    await self._end(each, episode)
                elif each is self._lone and share.unbounded and episode.shortage.resource in ("disk", "inodes"):
                    await self._end_if_hidden(each, episode)

    async def _end_if_hidden(self, each: Attendance, episode: Episode) -> None:
        """End the agent of a trial that runs alone; if that gives room, it had hidden what it took: open files without
        a name are in no count. If not, nothing is lost: a trial that ran while there was no room is void.
        """
        assert each.sandbox is not None  # noqa: S101 - it was measured
        shortage = episode.shortage
        key = (shortage.place, shortage.resource)
        before = self._left().get(key, 0)
        with suppress(SeatrialError, OSError):
            await each.sandbox.kill_all("agent")
            self.sample(asyncio.get_running_loop().time())
            if self._left().get(key, 0) - before > fair_amount(shortage, alone=True):
                each.own_doing = f"{shortage.message}; there was room again when the agent was ended"

    async def _end(self, each: Attendance, episode: Episode) -> None:
        """End the agent of a trial that takes all there is. What its verifier does meanwhile is not its doing."""
        assert each.sandbox is not None  # noqa: S101 - it was measured
        with suppress(SeatrialError, OSError):
            if each.episodes.get(episode) or each.agent_at_work() or await each.sandbox.processes():
                each.own_doing = episode.message
                await each.sandbox.kill_all("agent")


def _gauges_of_this_machine() -> list[Gauge]:
    from seatrial.sandbox.host.gauges import HostProcesses, Memory, Pauses  # noqa: PLC0415

    gauges: list[Gauge] = []
    for kind in (Memory, HostProcesses, Pauses):
        with suppress(OSError, ValueError):  # a container or chroot without the kernel's files: then without this one
            gauges.append(kind())
    return gauges


_watches: WeakKeyDictionary[asyncio.AbstractEventLoop, HostWatch] = WeakKeyDictionary()


def host_watch() -> HostWatch:
    loop = asyncio.get_running_loop()
    watch = _watches.get(loop)
    if watch is None:
        watch = _watches[loop] = HostWatch()
    return watch
