"""The images of the coordinator that arrive on a node: they go into the store of this node, and stay for all runs."""

from pathlib import Path

from seatrial.errors import HostUnsupportedError
from seatrial.images.copying import ImageOffer, LayerCopy, lacking, take_image, take_layer
from seatrial.images.store import Store


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
