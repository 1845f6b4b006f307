"""Single files out of a trial's kept end state, and what they were before, from the layers of its image.

The archive may be a stranger's: it is read in one pass, bytes and entries are bounded, nothing is unpacked on the disk,
and no link leads anywhere.
"""

import io
import os
import stat
import tarfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

import zstandard

from seatrial.errors import ContentError, HostUnsupportedError, ImageError, StoreError
from seatrial.images.cache import cache_root
from seatrial.images.config import read_document
from seatrial.images.reference import is_digest
from seatrial.images.store import LAYER_FOLDERS
from seatrial.model.record import SandboxRef
from seatrial.sandbox.layers import find_in_layers, is_gone_mark
from seatrial.trial.snapshot import ARCHIVE, FOLDER, content_of
from seatrial.untrusted.files import BoundedContent, open_below, read_bounded
from seatrial.untrusted.tar import CheckedEntry

_MAX_READ, _MAX_ENTRIES, _MAX_WINDOW = 2**28, 15_000, 2**27
_BROKEN = (ContentError, OSError, EOFError, ValueError, tarfile.TarError, zstandard.ZstdError)


@dataclass(frozen=True, slots=True)
class LeftFile:
    """What an agent left of a file: its content, or in `note` why there is none to be shown."""

    content: BoundedContent | None
    note: str = ""


def has_end_state(job: Path, place: Path) -> bool:
    """Whether an end state is kept in a folder of a job: that of a trial, or of a step of one."""
    return os.path.isfile(job / place / ARCHIVE)  # noqa: PTH113 - a Path raises for a name that no file can have


def read_end_state(job: Path, place: Path, wanted: Collection[str], limit: int = 2**18) -> dict[str, LeftFile]:
    """The files of these absolute paths, as far as the end state in a folder of a job has them.

    `place` is that folder as seen from the job. What is not in the answer was not changed; of what comes after very
    many others, a note says that it was not looked for there. Raises StoreError for what is no end state.
    """
    names = {path.strip("/"): path for path in wanted}
    found: dict[str, LeftFile] = {}
    with _reading(job, place) as archive:
        for number, member in enumerate(archive):
            if len(found) == len(names):
                break
            if number >= _MAX_ENTRIES:
                return {path: found.get(path, _not_reached()) for path in wanted}
            if path := names.get(member.name.strip("/")):
                found[path] = _left(archive, member, (job, place / FOLDER), limit)
    return found


def find_in_end_state(
    job: Path, place: Path, is_wanted: Callable[[str], bool], limit: int = 2**18, most: int = 100
) -> tuple[dict[str, LeftFile], bool]:
    """The files, by their absolute paths, that are wanted of an end state, and whether there are more of them.

    Raises StoreError for what is no end state.
    """
    found: dict[str, LeftFile] = {}
    with _reading(job, place) as archive:
        for number, member in enumerate(archive):
            path = f"/{member.name.strip('/')}"
            if number >= _MAX_ENTRIES or len(found) == most:
                return found, True
            if member.isdir() or is_gone_mark(member) or not is_wanted(path):
                continue
            found[path] = _left(archive, member, (job, place / FOLDER), limit)
    return found, False


def _not_reached() -> LeftFile:
    note = f"It is not among the first {_MAX_ENTRIES:,} entries of the end state, and no more of them are read."
    return LeftFile(None, note)


@contextmanager
def _reading(job: Path, place: Path) -> Iterator[tarfile.TarFile]:
    """The archive of an end state. Raises StoreError for what is none, also in the block."""
    try:
        with _opened(job, place) as archive:
            yield archive
    except _BROKEN as error:
        raise StoreError(f"{place / ARCHIVE}: not the end state of a sandbox: {error}") from None


@contextmanager
def _opened(job: Path, place: Path) -> Iterator[tarfile.TarFile]:
    with (
        open_below(place / ARCHIVE, job) as file,
        os.fdopen(os.dup(file), "rb") as packed,
        _unpacker().stream_reader(packed) as plain,
        tarfile.open(
            fileobj=_Bounded(plain), mode="r|", encoding="utf-8", errors="surrogateescape", tarinfo=CheckedEntry
        ) as archive,
    ):
        yield archive


def _unpacker() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)


def _left(archive: tarfile.TarFile, member: tarfile.TarInfo, large: tuple[Path, Path], limit: int) -> LeftFile:
    if is_gone_mark(member):
        return LeftFile(None, "removed")
    if member.issym() or member.islnk():
        return LeftFile(None, f"a link to {member.linkname}")
    if not member.isreg():
        return LeftFile(None, "no plain file")
    if apart := content_of(member):
        return LeftFile(_read_large(*large, *apart, limit))
    content = archive.extractfile(member)
    return LeftFile(BoundedContent(content.read(limit) if content else b"", b"", member.size))


def _read_large(job: Path, folder: Path, digest: str, size: int, limit: int) -> BoundedContent:
    """The beginning of a file that lies beside the archive under its digest."""
    with (
        open_below(folder / f"{digest}.zst", job) as file,
        os.fdopen(os.dup(file), "rb") as packed,
        _unpacker().stream_reader(packed) as plain,
    ):
        return BoundedContent(plain.read(limit), b"", size)


class _Bounded(io.RawIOBase):
    """A stream that refuses to be read for longer than is good."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left = _MAX_READ

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(data)
        if self._left <= 0:
            raise OSError(f"more than {_MAX_READ:,} bytes are in it")
        return data


# Files as they were before: from the layers of the image, as far as this machine still has them. Nothing of the store
# is claimed, so a layer may go while it is read.

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
