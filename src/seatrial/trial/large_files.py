"""Large files of an end state: out of its archive into files of their own, and back again.

Each is called by the digest of its content, which does not depend on where it was, whose it was or when it was written.
"""

import hashlib
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import zstandard

from seatrial.errors import ContentError, TooLargeError

FOLDER = "snapshot.files"
LARGE = 2**17
_CONTENT, _SIZE = "SEATRIAL.content", "SEATRIAL.size"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHUNK = 2**18
_LEVEL = 3


class Readable(Protocol):
    """Whatever can be read from."""

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are asked for; less only at the end."""
        ...


class KeepRoom:
    """How many bytes on the disk an end state may take, and has taken."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.taken = 0

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write some more. Raises TooLargeError where that would be too much."""
        self.taken += len(data)
        if self.taken > self._limit:
            raise TooLargeError(f"packed, it takes more than the limit of {self._limit:,} bytes")
        file.write(data)

    def bounded(self, file: BinaryIO) -> BinaryIO:
        """A file that can only be written to while there is room."""
        return cast("BinaryIO", BoundedFile(self, file))


class BoundedFile:
    """A file to which no more is written than there is room for."""

    def __init__(self, room: KeepRoom, file: BinaryIO) -> None:
        self._room = room
        self._file = file

    def write(self, data: bytes) -> int:
        """Write all of it. Raises TooLargeError."""
        self._room.write(self._file, data)
        return len(data)


def keep_apart(stream: Readable, packed: "zstandard.ZstdCompressionWriter", folder: Path, room: KeepRoom) -> None:
    """Copy an archive, with large files in `folder` instead of in it."""
    names = {"encoding": "utf-8", "errors": "surrogateescape"}
    with (
        tarfile.open(fileobj=stream, mode="r|", **names) as source,  # type: ignore[call-overload]
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT, **names) as target,  # type: ignore[call-overload]
    ):
        for member in source:
            content = source.extractfile(member) if member.isreg() else None
            if content is None or member.size < LARGE:
                target.addfile(member, content)
                continue
            digest = _store(content, folder, room)
            member.pax_headers = {**member.pax_headers, _CONTENT: digest, _SIZE: str(member.size)}
            member.pax_headers.pop("size", None)
            member.size = 0
            target.addfile(member)


def _store(content: Readable, folder: Path, room: KeepRoom) -> str:
    folder.mkdir(exist_ok=True)
    digest, unnamed = hashlib.sha256(), folder / "new"
    with unnamed.open("wb") as file, zstandard.ZstdCompressor(_LEVEL).stream_writer(room.bounded(file)) as packed:
        while data := content.read(_CHUNK):
            digest.update(data)
            packed.write(data)
    unnamed.rename(folder / f"{digest.hexdigest()}.zst")
    return digest.hexdigest()


def put_together(
    member: tarfile.TarInfo, source: tarfile.TarFile, target: tarfile.TarFile, folder: Path, left: int
) -> None:
    """Copy a member of an archive, with the content that is in `folder` if it is there.

    Raises ContentError for more than is `left`, and for content that is not there or another.
    """
    apart = content_of(member)
    if apart is None:
        _check_room(member.size, left)
        target.addfile(member, source.extractfile(member) if member.isreg() else None)
        return
    digest, member.size = apart
    _check_room(member.size, left)
    member.pax_headers = {key: value for key, value in member.pax_headers.items() if key not in (_CONTENT, _SIZE)}
    with zstandard.open(folder / f"{digest}.zst", "rb") as file:
        checked = _Checked(file)
        target.addfile(member, checked)
        if checked.digest.hexdigest() != digest:
            raise ContentError(f"{folder / digest}.zst: its content is another than its name says")


def content_of(member: tarfile.TarInfo) -> tuple[str, int] | None:
    """The digest and the size of a content that lies beside the archive; None for a member that has its own.

    Raises ContentError for what cannot be one.
    """
    digest, size = member.pax_headers.get(_CONTENT), member.pax_headers.get(_SIZE)
    if digest is None or size is None:
        return None
    if not _DIGEST.fullmatch(digest) or not size.isdecimal():
        raise ContentError(f"{member.name}: no such content can be: {digest!r}")
    return digest, int(size)


def _check_room(size: int, left: int) -> None:
    if size > left:
        raise ContentError("there is no room for what is in it on this machine")


class _Checked:
    """Reads a file and notes the digest of what was read."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as are asked for; less only at the end."""
        data = b"".join(self._whole(size))
        self.digest.update(data)
        return data

    def _whole(self, size: int) -> Iterator[bytes]:
        while size > 0 and (data := self._file.read(size)):
            yield data
            size -= len(data)
