"""From one store to another: which images are meant, what the other store lacks, and the layers as archives on the way.

A layer keeps the digest by which the first store knows it. What arrives is checked against that of its archive.
"""

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from seatrial.errors import ImageError, UsageError
from seatrial.images.building.plan import images_named_in
from seatrial.images.choice import ImagePlan, ImagePolicy, ImageRequest, plan_base, plan_image
from seatrial.images.config import digest_of, host_platform
from seatrial.images.layers import Owners
from seatrial.images.locks import run_worker
from seatrial.images.reference import parse_reference
from seatrial.images.store import Store
from seatrial.model.base import StrictModel
from seatrial.sandbox.embedded.client import granted_range


class ImageOffer(StrictModel):
    """An image that a store has, by the name that is asked for: its configuration's digest, its layers, lowest first.

    `manifest` is the digest under which a registry has it, `owners` whether files still belong to whom the image says.
    """

    kind: Literal["image"] = "image"
    reference: str
    digest: str
    manifest: str | None = None
    layers: tuple[str, ...]
    platform: str
    owners: Owners


class LayerCopy(StrictModel):
    """A layer on its way; `packed` is the digest of its archive, uncompressed."""

    kind: Literal["layer"] = "layer"
    digest: str
    packed: str


def offer_image(store: Store, name: str) -> ImageOffer | None:
    """What another store can have of the image of a name, None when it is not here. Raises UsageError for no name."""
    reference = parse_reference(name)
    found = store.find(reference, host_platform())
    if found is None:
        return None
    return ImageOffer(
        reference=str(reference),
        digest=found.digest,
        manifest=next((named.manifest for named in found.names), None),
        layers=found.layers,
        platform=str(found.document.platform.usual),
        owners=store.owners,
    )


def lacking(store: Store, offer: ImageOffer) -> list[str]:
    """The digests that a store lacks of an image, its configuration last; none for an image that it cannot use.

    One for another platform is of no use, nor one whose files have lost their owners where they can have them.
    """
    if offer.platform != str(host_platform().usual) or (offer.owners == "squashed" and store.owners == "kept"):
        return []
    found = store.find(offer.reference)
    if found and found.digest == offer.digest:
        return []
    return [*(layer for layer in dict.fromkeys(offer.layers) if store.layer(layer) is None), offer.digest]


async def pack_layer(store: Store, digest: str, target: BinaryIO) -> LayerCopy:
    """Write a compressed archive of a layer. Raises ImageError."""
    layer = store.layer(digest)
    if layer is None:
        raise ImageError(f"layer {digest} has been removed from the store meanwhile")
    source = os.open(layer.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        order = {"op": "pack", "hides_below": layer.about.hides_below}
        answer = await run_worker(order, [source, target.fileno()])
    finally:
        os.close(source)
    return LayerCopy(digest=digest, packed=answer["digest"])


async def take_layer(store: Store, copy: LayerCopy, archive: Path) -> None:
    """Add a layer that has arrived, unless it is there by now. Raises ImageError for other content, and OSError."""
    async with store.working_on(copy.digest):
        if store.layer(copy.digest) is None:
            with archive.open("rb", buffering=0) as file:
                await store.add_copy(file, copy.packed, copy.digest)


def take_image(store: Store, offer: ImageOffer, config: bytes) -> None:
    """Add an image whose layers are all here, and have its name mean it. Raises ImageError."""
    if digest_of(config) != offer.digest:
        raise ImageError(f"the configuration of {offer.reference} is not what its image says")
    store.put_image(config, offer.reference, manifest=offer.manifest)


# Owners of files in layers: as this machine has them, and as they are inside of an image.

_MAX_ID = 2**32 - 2
_TABLES = ("/etc/subuid", "/etc/subgid")


@dataclass(frozen=True, slots=True)
class OwnersHere:
    """How owners of files in our layers are to be read; as root, they are who they are.

    An ordinary user's own files are root's in an image, and the ids that were granted to them begin at 1 there.
    """

    own: tuple[int, int]
    granted: tuple[tuple[int, int], tuple[int, int]]

    @classmethod
    def here(cls) -> "OwnersHere":
        """As it is for this user."""
        own = os.getuid(), os.getgid()
        if own[0] == 0:
            return cls((0, 0), ((1, _MAX_ID), (1, _MAX_ID)))
        try:
            name = pwd.getpwuid(own[0]).pw_name
        except KeyError:  # as in a container that is told to run as some number
            name = str(own[0])
        first, count = zip(*(granted_range(table, name, own[0]) or ("0", "0") for table in _TABLES), strict=True)
        return cls(own, ((int(first[0]), int(count[0])), (int(first[1]), int(count[1]))))

    def inside(self, status: os.stat_result) -> tuple[int, int]:
        """Who a file of a layer belongs to in the image."""
        found = (status.st_uid, status.st_gid)
        uid, gid = (
            0 if number == own else number - first + 1 if first <= number < first + count else 0
            for number, own, (first, count) in zip(found, self.own, self.granted, strict=True)
        )
        return uid, gid


# References that have to be fetched for a task: its own image, or those that its Dockerfile builds on.


def references_for(request: ImageRequest, policy: ImagePolicy) -> list[str]:
    """The references that are fetched for a request, after what the run has instead of some.

    None for what cannot be resolved: to say why is up to the resolver.
    """
    try:
        return [plan.name for plan in _plans(request, policy) if plan.kind == "fetch"]
    except (ImageError, UsageError):
        return []


def _plans(request: ImageRequest, policy: ImagePolicy) -> Iterator[ImagePlan]:
    plan = plan_image(request, policy)
    if plan.kind != "build" or request.dockerfile is None:
        yield plan
        return
    for _, name in images_named_in(request.dockerfile):
        yield plan_base(name, policy)
