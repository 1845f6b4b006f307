"""The images of the coordinator's own store, for nodes that lack them: which a trial needs, and their layers to send.

The store is opened when the first image is asked for, and only if there is one.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.images.cache import cache_root
from seatrial.images.choice import ImageRequest
from seatrial.images.copying import ImageOffer, LayerCopy, offer_image, pack_layer, references_for
from seatrial.images.store import Store
from seatrial.trial.place import agent_image, image_policy, verifier_image
from seatrial.trial.rounds import rounds_of
from seatrial.trial.spec import TrialSpec

_SENDING = 16  # layers at once, for the sake of memory: a piece of each is in it


@dataclass(frozen=True, slots=True)
class PackedLayer:
    """A layer as a file to send."""

    copy: LayerCopy
    path: Path


@dataclass(eq=False, slots=True)
class _Packing:
    folder: Path
    users: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    packed: PackedLayer | None = None


class OfferedImages:
    """What this machine's store, or one at a `root`, has for nodes. All trials may ask for the images `also` named."""

    def __init__(self, also: Sequence[str] = (), root: Path | None = None) -> None:
        self._also = also
        self._root = root
        self._opened: Store | None = None
        self._offers: dict[str, ImageOffer | None] = {}
        self._needs: dict[str, tuple[ImageOffer, ...]] = {}
        self._packing: dict[str, _Packing] = {}
        self._sending = asyncio.Semaphore(_SENDING)

    def needed_by(self, spec: TrialSpec) -> tuple[ImageOffer, ...]:
        """The images that a trial needs and that are here. Trials of one task need the same."""
        if spec.task_digest not in self._needs:
            offers = map(self._offer, dict.fromkeys(references_of(spec, self._also)))
            self._needs[spec.task_digest] = tuple(filter(None, offers))
        return self._needs[spec.task_digest]

    def config_of(self, offer: ImageOffer) -> bytes:
        """The configuration of an image that was offered. Raises ImageError."""
        return self._store.config_of(offer.digest)

    @asynccontextmanager
    async def packed(self, digest: str) -> AsyncIterator[PackedLayer]:
        """A layer to send, for the length of a block; nodes that want it at once share it. Raises ImageError."""
        if digest not in self._packing:
            self._packing[digest] = _Packing(self._store.session.new_folder())
        packing = self._packing[digest]
        packing.users += 1
        try:
            async with packing.lock:
                if packing.packed is None:
                    packing.packed = await self._pack(digest, packing.folder / "layer.tar.zst")
            async with self._sending:
                yield packing.packed
        finally:
            packing.users -= 1
            if not packing.users:
                del self._packing[digest]
                shutil.rmtree(packing.folder, ignore_errors=True)

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

    def _offer(self, name: str) -> ImageOffer | None:
        if name not in self._offers:
            self._offers[name] = self._look_up(name)
        return self._offers[name]

    def _look_up(self, name: str) -> ImageOffer | None:
        try:
            if not (self._root or cache_root()).exists():
                return None
            return offer_image(self._store, name)
        except (UsageError, OSError):  # nodes look for it by themselves, and say what is wrong
            return None

    async def _pack(self, digest: str, path: Path) -> PackedLayer:
        with path.open("wb") as file:
            return PackedLayer(await pack_layer(self._store, digest, file), path)


def references_of(spec: TrialSpec, also: Sequence[str] = ()) -> Iterator[str]:
    """The images that a trial names, or its task, verifiers or Dockerfiles do, and some that every trial may name."""
    policy = image_policy(spec.options)
    verifiers = (verifier_image(each) for each in rounds_of(spec.task))
    asked = (ImageRequest(name, asked_by="user") for name in also)
    for request in (agent_image(spec.task), *filter(None, verifiers), *asked):
        yield from references_for(request, policy)


@asynccontextmanager
async def open_offered_images(also: Sequence[str] = (), root: Path | None = None) -> AsyncIterator[OfferedImages]:
    """The images of this machine's store, or of one at a `root`, for the length of a block."""
    images = OfferedImages(also, root)
    try:
        yield images
    finally:
        await images.close()
