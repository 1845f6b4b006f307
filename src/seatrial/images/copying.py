"""From one store to another: which image is meant, what of it the other lacks, and its layers as archives on the way.

A layer keeps the digest by which the first store knows it. What arrives is checked against that of its archive.
"""

import os
from pathlib import Path
from typing import BinaryIO, Literal

from seatrial.errors import ImageError
from seatrial.images.config import digest_of
from seatrial.images.layers import Owners
from seatrial.images.platforms import host_platform
from seatrial.images.reference import parse_reference
from seatrial.images.store import Store
from seatrial.images.workers import run_worker
from seatrial.model.base import StrictModel


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
