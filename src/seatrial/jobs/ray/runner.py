"""Runner: carries out trials on one node for a coordinator elsewhere, and keeps what came out until it is fetched.

It speaks in bytes, as they come over the network. Every method may be called twice with the same effect: a call whose
answer was lost is simply made again.
"""

import asyncio
import errno
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from seatrial.errors import HostExhaustedError, ImageError, PreflightError, SandboxError, SeatrialError
from seatrial.images.copying import ImageOffer
from seatrial.jobs.ray.archives import holds_little, pack_folder
from seatrial.jobs.ray.delivery import relocated, settled
from seatrial.jobs.ray.node_files import NodeFiles
from seatrial.jobs.ray.node_images import NodeImages
from seatrial.jobs.ray.node_report import describe_node
from seatrial.jobs.ray.node_trials import OpenTrials
from seatrial.jobs.ray.outbox import Outbox
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
    read_need,
    read_plan,
    read_spec,
)
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import host_watch
from seatrial.sandbox.scratch import Scratch, sweep_scratch
from seatrial.trial.events import Event, Notice, Observer, PhaseStarted

_FILES = "files"
_FULL = (errno.ENOSPC, errno.EDQUOT)
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
    return str(error) if isinstance(error, OSError) and error.errno in _FULL else None


def _explained(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
