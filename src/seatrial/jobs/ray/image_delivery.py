"""Images on their way to a node: only layers that it lacks, each once, in pieces, and the configuration last."""

import asyncio
import io
from collections import defaultdict
from typing import IO

from seatrial.errors import SandboxError
from seatrial.images.copying import ImageOffer, LayerCopy
from seatrial.jobs.ray.cluster import RunnerLink
from seatrial.jobs.ray.offered_images import OfferedImages
from seatrial.jobs.ray.wire import PIECE_BYTES
from seatrial.trial.events import Notice, Observer
from seatrial.trial.spec import TrialSpec


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
