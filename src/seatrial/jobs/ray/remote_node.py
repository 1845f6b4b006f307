"""One node as the coordinator sees it: what it has been sent, which trials it holds, and what it says of them.

A node that does not answer for a while is cut off: its trials are started again elsewhere, and what it still brings
is late. `ImageDelivery` sends it the images it lacks. Which node a trial gets is decided in `pool.py`.
"""

import asyncio
import io
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from seatrial.concurrency import finish, unless
from seatrial.errors import (
    HostExhaustedError,
    NodeLostError,
    NodeUnfitError,
    NodeUnreachableError,
    SandboxError,
    TrialError,
)
from seatrial.images.copying import ImageOffer, LayerCopy
from seatrial.jobs.ray.archives import LITTLE_BYTES, unpack_archive
from seatrial.jobs.ray.cluster import ClusterNode, RunnerLink
from seatrial.jobs.ray.delivery import Seat, needs_of, pack_need
from seatrial.jobs.ray.offered_images import OfferedImages
from seatrial.jobs.ray.wire import (
    PIECE_BYTES,
    POLL_SEC,
    FileNeed,
    Happened,
    Lease,
    NodeReport,
    RoomAgain,
    RunnerEnds,
    RunnerSettings,
    TrialEnded,
    read_news,
    write_spec,
)
from seatrial.model.events import Notice
from seatrial.model.record import TrialRecord
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

AGAIN_SEC = 1.0
SETTLE_SEC = 120.0  # to open sandboxes takes a second; what takes so long will not come
_WITH_STORE = "embedded"  # the daemons of the others have their own images

ANSWER_SEC = POLL_SEC + 30.0
"""A node that has said nothing for so long, not even that there is no news, does not answer."""

CUT_OFF_SEC = 30.0
"""After so long without an answer, the trials of a node are started again elsewhere."""


@dataclass(frozen=True, slots=True)
class NodeOutcome:
    """How a trial ended on a node, with what it left if that came along."""

    ended: TrialEnded
    archive: bytes


@dataclass(eq=False, slots=True)
class _Call:
    outcome: "asyncio.Future[NodeOutcome]"
    observe: Observer
    begun: bool = False


@dataclass(frozen=True, slots=True)
class LateResult:
    """A trial has ended on a node that was cut off, after it was given up; with the seat that it took until now."""

    outcome: NodeOutcome
    seat: Seat | None


NodeNews = Literal["gone", "cut off", "back again", "short of room", "room again"] | LateResult | Seat
"""What a node says that is of no trial that anybody waits for; a seat is one that is free again."""

Listener = Callable[["RemoteNode", NodeNews], None]


# Images on their way to a node: only layers that it lacks, each once, in pieces, and the configuration last.


async def send_pieces(link: RunnerLink, digest: str, archive: IO[bytes]) -> str | None:
    """Send a file to a runner; returns what went wrong there."""
    offset, reason = 0, None
    while not reason and (piece := await asyncio.to_thread(archive.read, PIECE_BYTES)):
        reason = await link.receive(digest, offset, piece)
        offset += len(piece)
    return reason


class ImageDelivery:
    """Brings images to one node."""

    def __init__(self, node: str, link: RunnerLink, images: OfferedImages, tell: Observer) -> None:
        self._node = node
        self._link = link
        self._images = images
        self._tell = tell
        self._there: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def deliver(self, spec: TrialSpec) -> None:
        """See that the node has those images of a trial that are here. Raises SandboxError when it cannot take one."""
        for offer in self._images.needed_by(spec):
            if offer.reference not in self._there:
                async with self._locks[offer.reference]:
                    await self._bring(offer)

    async def _bring(self, offer: ImageOffer) -> None:
        if offer.reference in self._there:
            return
        missing = await self._link.lacks([offer.model_dump_json().encode()])
        if missing:
            layers = [digest for digest in missing if digest != offer.digest]
            self._tell(Notice(f"node {self._node} gets the image {offer.reference} ({len(layers)} layers)"))
            for digest in layers:
                await self._bring_layer(offer, digest)
            config = io.BytesIO(self._images.config_of(offer))
            await self._send(offer, offer, config)
        self._there.add(offer.reference)

    async def _bring_layer(self, offer: ImageOffer, digest: str) -> None:
        """Images may share layers, and be on their way at the same time."""
        async with self._locks[digest]:
            if digest in self._there:
                return
            async with self._images.packed(digest) as packed:
                with await asyncio.to_thread(packed.path.open, "rb") as archive:
                    await self._send(offer, packed.copy, archive)
            self._there.add(digest)

    async def _send(self, offer: ImageOffer, what: ImageOffer | LayerCopy, archive: IO[bytes]) -> None:
        reason = await send_pieces(self._link, what.digest, archive)
        reason = reason or await self._link.complete(what.model_dump_json().encode())
        if reason:
            raise SandboxError(f"node {self._node} could not take the image {offer.reference}: {reason}")


# The node.


class RemoteNode:
    """A node with a runner."""

    def __init__(
        self, node: ClusterNode, link: RunnerLink, tell: Observer, listener: Listener, images: OfferedImages
    ) -> None:
        self.node = node
        self.link = link
        self.report: NodeReport | None = None
        self.ghosts: dict[str, Seat | None] = {}
        """Leases that were given up while the node was cut off: they may still be running, so they take seats."""
        self._lost = asyncio.Event()
        self._trouble = NodeLostError("it is gone")
        self._tell = tell
        self._listener = listener
        self._images = ImageDelivery(node.name, link, images, tell)
        self._calls: dict[str, _Call] = {}
        self._delivered: set[str] = set()
        self._delivering: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def name(self) -> str:
        return self.node.name

    async def run(self, lease: Lease, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Carry out a trial there; what it leaves comes into the folder. Raises TrialError, OSError."""
        key = str(lease)
        call = self._calls[key] = _Call(asyncio.get_running_loop().create_future(), observe)
        try:
            record = await unless(self._lost, self._carry_out(key, spec, call, folder))
            if record is None:
                raise self._trouble
            return record  # noqa: TRY300 - cancelled work has none
        except NodeLostError as error:
            if not isinstance(error, NodeUnreachableError):
                self._listener(self, "gone")
            raise type(error)(f"node {self.name} was lost: {error}") from error
        except asyncio.CancelledError:
            await finish(self._give_up(key))
            raise
        finally:
            del self._calls[key]

    async def _carry_out(self, key: str, spec: TrialSpec, call: _Call, folder: Path) -> TrialRecord:
        await self.supply(spec)
        call.begun = True
        await self._start(key, spec, call)
        return await self.fetch(await call.outcome, folder)

    async def settle(self, settings: RunnerSettings) -> NodeReport:
        """Tell the runner its settings. Raises NodeUnfitError when no trial can run there."""
        data = settings.model_dump_json().encode()
        try:
            async with asyncio.timeout(SETTLE_SEC):
                told = await self.link.settle(data)
        except TimeoutError:
            raise NodeLostError(f"it was not ready after {SETTLE_SEC:g} s") from None
        self.report = NodeReport.model_validate_json(told)
        if self.report.capabilities is None:
            raise NodeUnfitError(self.report.reason or "no reason given")
        return self.report

    async def supply(self, spec: TrialSpec) -> None:
        """See that the node has what a trial needs of this machine. Raises SandboxError when it cannot take it."""
        await self.deliver(needs_of(spec))
        if self.report and self.report.capabilities and self.report.capabilities.backend == _WITH_STORE:
            await self._images.deliver(spec)

    async def deliver(self, needs: Iterable[FileNeed]) -> None:
        """See that files are on the node. Raises SandboxError when it cannot take them."""
        for need in needs:
            async with self._delivering[need.digest]:
                if need.digest not in self._delivered:
                    if await self.link.lacks([need.model_dump_json().encode()]):
                        await self._send(need)
                    self._delivered.add(need.digest)

    async def fetch(self, outcome: NodeOutcome, folder: Path) -> TrialRecord:
        """The record of a trial that has ended, and what it left. Raises TrialError for one without, OSError."""
        ended = outcome.ended
        if ended.record is None:
            if ended.shortage:
                raise HostExhaustedError(f"node {self.name}: {ended.shortage}")
            raise TrialError(f"on node {self.name}: {ended.error}")
        if outcome.archive or not ended.size:
            archive = io.BytesIO(outcome.archive)
            if ended.content <= LITTLE_BYTES:
                unpack_archive(archive, folder, ended.content)
            else:
                await asyncio.to_thread(unpack_archive, archive, folder, ended.content)
            return ended.record
        with tempfile.TemporaryFile(dir=folder) as file:
            while file.tell() < ended.size:
                piece = await self._piece(ended.lease, file.tell())
                if not piece:
                    raise SandboxError(f"node {self.name} has lost what trial {ended.record.trial_id} left")
                await asyncio.to_thread(file.write, piece)
            file.seek(0)
            await asyncio.to_thread(unpack_archive, file, folder, ended.content)
        await self.link.drop(ended.lease)
        return ended.record

    async def listen(self) -> None:
        """Take the news of the node as they come. Raises NodeLostError when it is gone."""
        seen, heard = 0, time.monotonic()
        while True:
            try:
                async with asyncio.timeout(ANSWER_SEC):
                    seen, batch = await self.link.news(seen)
                    if self._lost.is_set():
                        await self._come_back()
            except (NodeUnreachableError, TimeoutError) as error:
                if time.monotonic() - heard > CUT_OFF_SEC:
                    self._cut_off(str(error) or f"no answer for {ANSWER_SEC:g} s")
                await asyncio.sleep(AGAIN_SEC)
                continue
            heard = time.monotonic()
            for news, archive in batch:
                self._take(news, archive)

    def _cut_off(self, reason: str) -> None:
        if not self._lost.is_set():
            self.ghosts |= {key: None for key, call in self._calls.items() if call.begun}
            self._listener(self, "cut off")
            self.lose(NodeUnreachableError(reason))

    async def _come_back(self) -> None:
        """A node that was cut off answers: what never arrived there takes no seat."""
        held = set(await self.link.held())
        for lease in [each for each in self.ghosts if each not in held]:
            if seat := self.ghosts.pop(lease):
                self._listener(self, seat)
        self._lost.clear()
        self._listener(self, "back again")

    def lose(self, error: NodeLostError) -> None:
        """Nothing more is expected of the trials that run there."""
        self._trouble = error
        self._lost.set()

    def _take(self, data: bytes, archive: bytes) -> None:
        match read_news(data):
            case Happened() as happened:
                call = self._calls.get(happened.lease)
                if event := happened.phase or happened.notice:
                    (call.observe if call else self._tell)(event)
            case TrialEnded() as ended:
                if ended.shortage:
                    self._listener(self, "short of room")
                self._settle_call(NodeOutcome(ended, archive))
            case RoomAgain():
                self._listener(self, "room again")
            case RunnerEnds(reason=reason):
                raise NodeLostError(reason)

    def _settle_call(self, outcome: NodeOutcome) -> None:
        lease = outcome.ended.lease
        if lease in self.ghosts:
            self._listener(self, LateResult(outcome, self.ghosts.pop(lease)))
        elif (call := self._calls.get(lease)) and not call.outcome.done():
            call.outcome.set_result(outcome)

    async def _start(self, key: str, spec: TrialSpec, call: _Call) -> None:
        """Begin a trial, again if need be: the runner takes no lease twice."""
        data = write_spec(spec)
        while not call.outcome.done():
            with suppress(NodeUnreachableError):
                return await self.link.start(key, data)
            await asyncio.wait((call.outcome,), timeout=AGAIN_SEC)
        return None

    async def _piece(self, lease: str, offset: int) -> bytes:
        """A piece of what a trial left, asked for again while the node does not answer."""
        deadline = time.monotonic() + CUT_OFF_SEC
        while True:
            try:
                return await self.link.piece(lease, offset)
            except NodeUnreachableError:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(AGAIN_SEC)

    async def _give_up(self, key: str) -> None:
        with suppress(NodeLostError, TimeoutError):  # then it ends with the runner
            async with asyncio.timeout(ANSWER_SEC):
                await self.link.drop(key)

    async def _send(self, need: FileNeed) -> None:
        archive = await asyncio.to_thread(pack_need, need)
        with archive:
            self._check(need, await send_pieces(self.link, need.digest, archive))
        self._check(need, await self.link.complete(need.model_dump_json().encode()))

    def _check(self, need: FileNeed, reason: str | None) -> None:
        if reason:
            raise SandboxError(f"node {self.name} could not take {need.path}: {reason}")
