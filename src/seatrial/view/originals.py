"""What a file was before an agent changed it: from the layers of the image, as far as this machine still has them.

Only looks: nothing of the store of images is claimed or touched, so a layer may go while it is read.
"""

import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seatrial.errors import HostUnsupportedError, ImageError, StoreError
from seatrial.images.cache import cache_root
from seatrial.images.config import read_document
from seatrial.images.reference import is_digest
from seatrial.images.store import LAYER_FOLDERS
from seatrial.model.record import SandboxRef
from seatrial.sandbox.overlay import find_in_layers
from seatrial.view.rendering.bounded import BoundedContent, read_bounded

_HOST = "host"


@dataclass(frozen=True, slots=True)
class OriginalFile:
    """A file of an image, and where it was found if that needs to be said."""

    content: BoundedContent
    note: str = ""


def find_original(sandbox: SandboxRef, path: str, limit: int = 2**18) -> OriginalFile | None:
    """The file of a sandbox's image at an absolute path; None if it has none there, or nobody here knows any more."""
    try:
        if sandbox.image == _HOST:
            return _from_this_machine(path, limit)
        return _from_layers(sandbox.image_digest, path, limit)
    except (StoreError, OSError, ImageError, HostUnsupportedError):
        return None


def _from_this_machine(path: str, limit: int) -> OriginalFile | None:
    """This machine's own file, and only one that all its users may read: a stranger's record may name any."""
    if not _is_for_everyone(Path(path)):
        return None
    content = read_bounded(Path(path.lstrip("/")), Path("/"), limit)
    return OriginalFile(content, "as it is on this machine now, whose own system the image was")


def _is_for_everyone(path: Path) -> bool:
    status = path.lstat()
    folders = (folder.lstat().st_mode for folder in path.parents)
    is_open = all(mode & stat.S_IXOTH for mode in folders) and bool(status.st_mode & stat.S_IROTH)
    return is_open and status.st_uid == 0


def _from_layers(digest: str | None, path: str, limit: int) -> OriginalFile | None:
    for layers in filter(None, map(partial(_layers_of, digest or ""), LAYER_FOLDERS.values())):
        if found := find_in_layers(layers, path):
            root = next(layer for layer in layers if found.startswith(f"{layer}/"))
            return OriginalFile(read_bounded(Path(found), Path(root), limit))
    return None


def _layers_of(digest: str, folder: str) -> list[str] | None:
    """The folders of an image's layers, the topmost first; None unless all are here."""
    if not is_digest(digest):
        return None
    root = cache_root()
    document = read_document((root / "images" / f"{digest.partition(':')[2]}.json").read_bytes(), digest)
    layers = [root / folder / layer.partition(":")[2] / "root" for layer in document.rootfs.diff_ids]
    return [str(layer) for layer in reversed(layers)] if all(layer.is_dir() for layer in layers) else None
