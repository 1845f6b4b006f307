"""Runner: carries out trials on one node for a coordinator elsewhere, and keeps what came out until it is fetched.

It knows nothing of Ray: it speaks in bytes, as they come over the network, and how it opens trials is given to it.
Every method may be called twice with the same effect: a call whose answer was lost is simply made again. The node's
files, images and news are here too.
"""

import asyncio
import os
import platform
import shutil
import socket
import tempfile
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import IO

from seatrial.agents.files import have_changed
from seatrial.descriptors import affordable_trials
from seatrial.errors import (
    HostExhaustedError,
    HostUnsupportedError,
    ImageError,
    OversizeError,
    PreflightError,
    SandboxError,
    SeatrialError,
)
from seatrial.images.copying import ImageOffer, LayerCopy, lacking, take_image, take_layer
from seatrial.images.store import Store
from seatrial.jobs.admission import cores, machine_memory_mb, usual_slots
from seatrial.jobs.preflight import PreflightPlan
from seatrial.jobs.ray.archives import holds_little, pack_folder, unpack_archive
from seatrial.jobs.ray.delivery import relocated, settled
from seatrial.jobs.ray.wire import (
    INLINE_BYTES,
    PIECE_BYTES,
    POLL_SEC,
    Batch,
    FileNeed,
    Happened,
    NodeReport,
    RoomAgain,
    RunnerEnds,
    RunnerSettings,
    TrialEnded,
    digest_of,
    read_need,
    read_plan,
    read_spec,
)
from seatrial.model.base import StrictModel
from seatrial.model.events import Notice
from seatrial.model.job import AgentFiles
from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import Capabilities
from seatrial.sandbox.host.disks import FULL
from seatrial.sandbox.host.watch import host_watch
from seatrial.sandbox.runs import Scratch, sweep_scratch
from seatrial.tasks.layout import digest_folder
from seatrial.trial.events import Event, Observer, PhaseStarted
from seatrial.trial.spec import TrialSpec

RunOne = Callable[[TrialSpec, Path, Observer], Awaitable[TrialRecord]]
"""Carries out one trial on this node, leaving its files in the folder."""

TryOut = Callable[[PreflightPlan, Observer], Awaitable[None]]
"""Tries agents out on this node. Raises PreflightError."""


@dataclass(frozen=True, slots=True)
class NodeTrials:
    """What a node needs to carry out trials, once it is open: what its sandboxes can do, and how to try and run one."""

    capabilities: Capabilities
    run: RunOne
    try_out: TryOut


OpenTrials = Callable[[RunnerSettings, Observer], AbstractAsyncContextManager[NodeTrials]]
"""Opens what all trials of this node share. Raises UsageError or TrialError where no trial can run."""


# News on their way to the coordinator: in order, numbered, and kept until it has them. Each message costs both sides
# more than what is in it, so what is only to be shown waits a little for company.

LINGER_SEC = 0.2


class Outbox:
    """News of one runner."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, bytes, bytes]] = deque()
        self._last = self._handed_out = 0
        self._due = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def post(self, news: StrictModel, archive: bytes = b"") -> int:
        """Add something, with what comes along; returns its number."""
        number = self._add(news, archive)
        self._due.set()
        return number

    def mention(self, news: StrictModel) -> None:
        """Add something that goes with the next news, or after a moment."""
        self._add(news)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LINGER_SEC, self._come_due)

    def _add(self, news: StrictModel, archive: bytes = b"") -> int:
        self._last += 1
        self._waiting.append((self._last, news.model_dump_json().encode(), archive))
        return self._last

    def _come_due(self) -> None:
        self._timer = None
        self._due.set()

    async def collect(self, seen: int, longest_sec: float) -> Batch:
        """What is new since the news of that number, as soon as something is due; nothing after so long.

        No more than fits into one message, and what was seen is forgotten.
        """
        while self._waiting and self._waiting[0][0] <= seen:
            self._waiting.popleft()
        if not self._waiting or self._waiting[0][0] > self._handed_out:  # else an answer was lost
            try:
                async with asyncio.timeout(longest_sec):
                    await self._due.wait()
            except TimeoutError:
                return seen, []
        return self._batch()

    def _batch(self) -> Batch:
        last, size = 0, 0
        batch: list[tuple[bytes, bytes]] = []
        for number, news, archive in self._waiting:
            size += len(news) + len(archive)
            if batch and size > PIECE_BYTES:
                break
            last = number
            batch.append((news, archive))
        self._handed_out = last
        if last == self._last:
            self._due.clear()
        return last, batch


# Files of the coordinator that this node has: kept by their digest, once, for all runs; or seen on a shared disk. What
# arrives is checked against its digest aside and then renamed into place, so that runs can share one folder, and one
# that is killed leaves nothing half done.

FORGOTTEN_SEC = 14 * 24 * 3600.0
"""What no run has needed for so long is removed."""

_CONTENT = "content"
_DIGEST_LETTERS = 64


class NodeFiles:
    """The files below a `root` of this node. `close` it at the end."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root = root
        self._aside = Scratch(root)
        self.places: dict[str, Path] = {}
        """Where everything lies that was found or has arrived, by digest."""

    def find(self, need: FileNeed) -> Path | None:
        """Where what is needed lies on this node: in our folder, or at the same path as on the coordinator."""
        if found := self.places.get(need.digest):
            return found
        kept = self._place(need)
        if kept.exists():
            with suppress(OSError):  # somebody else's clock or disk: it is there, which is what counts
                os.utime(self._root / need.digest)
            found = kept
        elif is_intact(need, Path(need.path)):
            found = Path(need.path)
        if found:
            self.places[need.digest] = found
        return found

    def receive(self, digest: str, offset: int, piece: bytes) -> None:
        """Keep a piece of an archive that is on its way. Raises OSError; the same piece may come twice."""
        with self.archive(digest).open("r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(piece)

    def archive(self, digest: str) -> Path:
        return self._aside.path / f"{digest}.tar.zst"

    def complete(self, need: FileNeed) -> Path:
        """Unpack an archive that has arrived. Raises SandboxError for one that is not what was needed, and OSError."""
        archive, aside = self.archive(need.digest), self._aside.path / f"{need.digest}.new"
        shutil.rmtree(aside, ignore_errors=True)
        content = aside / _CONTENT
        content.mkdir(parents=True)
        try:
            with archive.open("rb") as file:
                unpack_archive(file, content)
            if not is_intact(need, content / (need.name or "")):
                raise SandboxError(f"{need.path}: other files arrived than were sent, or they changed meanwhile")
            with suppress(FileExistsError, OSError):
                aside.rename(self._root / need.digest)  # unless another run was faster
        finally:
            archive.unlink(missing_ok=True)
            shutil.rmtree(aside, ignore_errors=True)
        found = self.places[need.digest] = self._place(need)
        if not found.exists():
            raise SandboxError(f"{found}: cannot be written")
        return found

    def sweep(self, now: float | None = None) -> list[str]:
        """Remove what nobody has needed for long; returns the digests."""
        oldest = (time.time() if now is None else now) - FORGOTTEN_SEC
        gone = []
        for path in self._root.iterdir():
            with suppress(FileNotFoundError):  # another run sweeps too
                if len(path.name) == _DIGEST_LETTERS and path.lstat().st_mtime < oldest:
                    shutil.rmtree(path, ignore_errors=True)
                    gone.append(path.name)
        return gone

    def close(self) -> None:
        """Drop what was on its way."""
        with suppress(OSError):
            self._aside.remove()

    def _place(self, need: FileNeed) -> Path:
        return self._root / need.digest / _CONTENT / (need.name or "")


def is_intact(need: FileNeed, path: Path) -> bool:
    try:
        if need.kind == "task":
            return digest_folder(path) == need.digest
        if need.kind == "agent":
            return not have_changed(AgentFiles(source=str(path), digest=need.digest))
        return digest_of(path.read_bytes()) == need.digest
    except (OSError, OversizeError):
        return False


# Images of the coordinator: they go into the store of this node, and stay for all runs.


class NodeImages:
    """The store of this node, or one at a `root`, opened when the first image is offered.

    What was found or has arrived is not pruned before `close`.
    """

    def __init__(self, root: Path | None = None) -> None:
        self._root = root
        self._opened: Store | None = None

    def lacking(self, offer: ImageOffer) -> list[str]:
        """The digests that this node lacks of an image; none where it has no store. Raises OSError."""
        try:
            return lacking(self._store, offer)
        except HostUnsupportedError:  # its trials say so
            return []

    async def take(self, arrived: ImageOffer | LayerCopy, archive: Path) -> None:
        """Take a layer from its archive, or an image from its configuration. Raises ImageError and OSError."""
        if isinstance(arrived, LayerCopy):
            await take_layer(self._store, arrived, archive)
        elif lacking(self._store, arrived):
            take_image(self._store, arrived, archive.read_bytes())  # noqa: ASYNC240 - a small document

    async def close(self) -> None:
        """Give up the store; more than once is fine."""
        opened, self._opened = self._opened, None
        if opened:
            await opened.close()

    @property
    def _store(self) -> Store:
        if self._opened is None:
            self._opened = Store(self._root)
        return self._opened


# The runner.

_FILES = "files"
_REFUSALS = (OSError, SandboxError, ImageError)


@dataclass(eq=False, slots=True)
class _Held:
    """A lease that the runner has: running, or with what it left."""

    task: "asyncio.Task[None] | None" = None
    archive: IO[bytes] | None = None


class Runner:
    """The runner of one node, which keeps its files below `state`. It begins with `settle` and ends with `close`."""

    def __init__(self, state: Path, open_trials: OpenTrials, images: NodeImages | None = None) -> None:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._state = state
        self._open = open_trials
        self._files = NodeFiles(state / _FILES)
        self._images = images or NodeImages()
        self._outbox = Outbox()
        self._held: dict[str, _Held] = {}
        self._life: asyncio.Task[None] | None = None
        self._report: asyncio.Future[NodeReport] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._room: asyncio.Task[None] | None = None
        self._handed_in: deque[tuple[int, str]] = deque()

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        """What of some needed files and offered images is not on this node, by digest; of an image, its layers too."""
        wanted = list(map(read_need, needs))
        files = [each for each in wanted if isinstance(each, FileNeed)]
        missing = await asyncio.to_thread(lambda: [each.digest for each in files if self._files.find(each) is None])
        for offer in wanted:
            if isinstance(offer, ImageOffer):
                missing += self._images.lacking(offer)
        return missing

    async def receive(self, digest: str, offset: int, piece: bytes) -> str | None:
        """Take a piece of an archive; returns what went wrong, if something did: then all of it is dropped."""
        reason = await asyncio.to_thread(_attempt, lambda: self._files.receive(digest, offset, piece))
        if reason:
            self._files.archive(digest).unlink(missing_ok=True)
        return reason

    async def complete(self, need: bytes) -> str | None:
        """All pieces have been sent: unpack them; returns what went wrong, if something did."""
        wanted = read_need(need)
        if isinstance(wanted, FileNeed):
            return await asyncio.to_thread(_attempt, lambda: self._files.complete(wanted))
        archive = self._files.archive(wanted.digest)
        try:
            await self._images.take(wanted, archive)
        except _REFUSALS as error:
            return str(error)
        finally:
            archive.unlink(missing_ok=True)
        return None

    async def settle(self, settings: bytes) -> bytes:
        """Open what trials need, by settings whose files are here; returns the NodeReport."""
        if self._life is None:
            told = RunnerSettings.model_validate_json(settings)
            self._life = asyncio.create_task(self._live(settled(told, self._files.places)))
        return (await asyncio.shield(self._report)).model_dump_json().encode()

    async def try_out(self, plan: bytes) -> str | None:
        """Try agents out whose files are here; returns what cannot work, if something cannot."""
        asked = read_plan(plan)
        agents = {
            title: tuple(relocated(spec, self._files.places) for spec in specs) for title, specs in asked.agents.items()
        }
        try:
            await self._opened.try_out(replace(asked, agents=agents), self._tell(""))
        except PreflightError as error:
            return str(error)
        return None

    async def start(self, lease: str, spec: bytes) -> None:
        """Begin a trial whose files are here; what becomes of it is told in the news."""
        if lease not in self._held:
            held = self._held[lease] = _Held()
            held.task = self._trials.create_task(self._carry_out(lease, spec))

    async def news(self, seen: int) -> Batch:
        """What has happened since the news of that number; waits for some, but not for long.

        Results among those that were seen are forgotten, unless there is more to fetch.
        """
        while self._handed_in and self._handed_in[0][0] <= seen:
            self._held.pop(self._handed_in.popleft()[1], None)
        return await self._outbox.collect(seen, POLL_SEC)

    async def held(self) -> list[str]:
        """The leases that it has: those that run, and those whose results were not fetched yet."""
        return list(self._held)

    async def piece(self, lease: str, offset: int) -> bytes:
        """A piece of what a trial left that was too large to go with its result; empty behind its end."""
        archive = self._held[lease].archive
        return await asyncio.to_thread(_read, archive, offset) if archive else b""

    async def drop(self, lease: str) -> None:
        """Forget a lease: what it left has been fetched, or is not wanted; a trial that still runs is ended first."""
        held = self._held.pop(lease, None)
        if held is None:
            return
        if held.task and not held.task.done():
            held.task.cancel()
            await asyncio.wait((held.task,))
        if held.archive:
            held.archive.close()

    async def end(self, reason: str) -> None:
        """Close by itself; whoever asks for news is told why, before the cluster notices anything."""
        self._outbox.post(RunnerEnds(reason=reason))
        await self.close()

    async def close(self) -> None:
        """End every trial, and leave nothing behind."""
        self._closing.set()
        if self._life:
            await asyncio.wait((self._life,))
        for lease in list(self._held):
            await self.drop(lease)
        self._files.close()
        await self._images.close()

    async def _live(self, settings: RunnerSettings) -> None:
        """From the opening of what all trials share to its end, in one task, as task groups want it."""
        report = describe_node(self._state, settings.slots)
        try:
            for folder in (self._state, self._state / _FILES):
                await sweep_scratch(folder)
            await asyncio.to_thread(self._files.sweep)
            async with self._open(settings, self._tell("")) as opened:
                with Scratch(self._state) as scratch, host_watch().guarding(scratch):
                    self._opened, self._scratch = opened, scratch
                    await self._serve(report.model_copy(update={"capabilities": opened.capabilities}))
        except (SeatrialError, OSError) as error:
            if self._report.done():
                raise
            self._report.set_result(report.model_copy(update={"reason": str(error)}))

    async def _serve(self, report: NodeReport) -> None:
        async with asyncio.TaskGroup() as self._trials:
            self._report.set_result(report)
            await self._closing.wait()
            for task in (self._room, *(held.task for held in self._held.values())):
                if task:
                    task.cancel()

    async def _carry_out(self, lease: str, spec: bytes) -> None:
        folder = self._scratch / lease
        try:
            folder.mkdir()
            record = await self._opened.run(relocated(read_spec(spec), self._files.places), folder, self._tell(lease))
            ended = TrialEnded(lease=lease, record=record, shortage=_shortage(record))
            await self._hand_in(ended, folder)
        except Exception as error:  # noqa: BLE001 - a bug in one trial must not end the others
            self._end(TrialEnded(lease=lease, error=_explained(error), shortage=_lacking(error)))
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _hand_in(self, ended: TrialEnded, folder: Path) -> None:
        archive: IO[bytes] = tempfile.SpooledTemporaryFile(INLINE_BYTES, dir=str(self._scratch))  # noqa: SIM115
        try:
            if holds_little(folder):  # sooner done than handed to a thread, which would fight us for the interpreter
                content = pack_folder(folder, archive)
            else:
                content = await asyncio.to_thread(pack_folder, folder, archive)
        except BaseException:
            archive.close()
            raise
        size = archive.tell()
        known = ended.model_copy(update={"size": size, "content": content})
        if size <= INLINE_BYTES:
            self._end(known, _read(archive, 0))
            archive.close()
            return
        if held := self._held.get(ended.lease):
            held.archive = archive
        self._end(known)

    def _end(self, ended: TrialEnded, archive: bytes = b"") -> None:
        number = self._outbox.post(ended, archive)
        if archive or not ended.size:  # there is nothing more to fetch
            self._handed_in.append((number, ended.lease))
        if ended.shortage and self._room is None:
            self._room = self._trials.create_task(self._tell_of_room())

    async def _tell_of_room(self) -> None:
        """Say so when there is room again for trials."""
        while host_watch().shortage:
            with suppress(HostExhaustedError):  # for ten minutes; it may still come
                await host_watch().wait_for_room()
        self._room = None
        self._outbox.post(RoomAgain())

    def _tell(self, lease: str) -> Observer:
        def tell(event: Event) -> None:
            if isinstance(event, PhaseStarted):
                self._outbox.mention(Happened(lease=lease, phase=event))
            elif isinstance(event, Notice):
                self._outbox.mention(Happened(lease=lease, notice=event))

        return tell


def describe_node(folder: Path, slots: int | None = None) -> NodeReport:
    """This machine, for trials that keep their files in a folder; so many at once as asked for, if it bears them."""
    return NodeReport(
        version=version("seatrial"),
        python=platform.python_version(),
        host=socket.gethostname(),
        pid=os.getpid(),
        cores=cores(),
        memory_mb=machine_memory_mb(),
        disk_free_mb=shutil.disk_usage(folder).free // 2**20,
        slots=affordable_trials(slots or usual_slots()),
    )


def _attempt(work: Callable[[], object]) -> str | None:
    try:
        work()
    except _REFUSALS as error:
        return str(error)
    return None


def _read(archive: IO[bytes], offset: int) -> bytes:
    archive.seek(offset)
    return archive.read(PIECE_BYTES)


def _shortage(record: TrialRecord) -> str | None:
    failure = record.failure
    return failure.message if failure and failure.cause == HostExhaustedError.__name__ else None


def _lacking(error: Exception) -> str | None:
    return str(error) if isinstance(error, OSError) and error.errno in FULL else None


def _explained(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
