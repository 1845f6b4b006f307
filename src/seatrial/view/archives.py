"""Lists the entries of a stranger's archive, as far as they can be seen without unpacking it."""

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice

import zstandard
from markupsafe import Markup

from seatrial.report.text import counted
from seatrial.untrusted.files import BoundedContent
from seatrial.untrusted.tar import CheckedEntry
from seatrial.view.content import clean, scrolling_table

_MAX_ENTRIES, _MAX_NAME = 500, 300
# As much is unpacked of a stranger's archive at most, and with as much memory.
_MAX_EXPANDED, _MAX_WINDOW = 2**22, 2**26


def list_zip(content: BoundedContent) -> tuple[Markup, str]:
    """The entries of a ZIP archive, of which its end speaks. Raises what its reader raises on others."""
    with zipfile.ZipFile(io.BufferedReader(_Gapped(content))) as archive:
        entries = archive.infolist()
        shown = _listing((entry.filename, entry.file_size) for entry in entries[:_MAX_ENTRIES])
    return shown, _note(len(entries))


def list_tar(content: BoundedContent) -> tuple[Markup, str]:
    """The entries of a tar archive, compressed or not, up to where its beginning ends."""
    expanded = _expanded(content.head)
    found: list[tuple[str, int]] = []
    note = ""
    try:
        with tarfile.open(fileobj=io.BytesIO(expanded), mode="r:", errors="replace", tarinfo=CheckedEntry) as archive:
            for member in islice(archive, _MAX_ENTRIES + 1):
                found.append((member.name + ("/" if member.isdir() else ""), member.size))  # noqa: PERF401 - as far as it goes
    except (tarfile.TarError, OSError, ValueError) as error:
        note = f"the list ends where the archive cannot be read: {error}"
    if not found:
        raise tarfile.ReadError(note or "no entry is in it")
    cut = len(found) > _MAX_ENTRIES or not content.whole or len(expanded) == _MAX_EXPANDED
    many = counted(min(len(found), _MAX_ENTRIES), "entry", "entries")
    return _listing(found[:_MAX_ENTRIES]), "; ".join(filter(None, (f"the first {many}" if cut else many, note)))


def _expanded(head: bytes) -> bytes:
    if head.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(head, _MAX_EXPANDED)
    if head.startswith(b"BZh"):
        return bz2.BZ2Decompressor().decompress(head, _MAX_EXPANDED)
    if head.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor(memlimit=_MAX_WINDOW).decompress(head, _MAX_EXPANDED)
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        unpacker = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        return b"".join(_until_broken(unpacker.stream_reader(io.BytesIO(head))))
    return head


def _until_broken(stream: "zstandard.ZstdDecompressionReader") -> Iterator[bytes]:
    left = _MAX_EXPANDED
    while left and (data := stream.read(min(left, 2**16))):
        yield data
        left -= len(data)


def _listing(entries: Iterable[tuple[str, int]]) -> Markup:
    rows = ((clean(name[:_MAX_NAME]), f"{size:,}") for name, size in entries)
    return scrolling_table("Entries", ("Entry", "Bytes"), rows)


def _note(count: int) -> str:
    many = counted(count, "entry", "entries")
    return f"the first {_MAX_ENTRIES} of {many}" if count > _MAX_ENTRIES else many


class _Gapped(io.RawIOBase):
    """A file of which only the beginning and the end can be read, where everything is at its place."""

    def __init__(self, content: BoundedContent) -> None:
        self._content = content
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._content.size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: "memoryview[int]") -> int:  # type: ignore[override]
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _read(self, size: int) -> bytes:
        content, start = self._content, self._position
        if start < len(content.head):
            return content.head[start : start + size]
        behind = content.size - len(content.tail)
        if start < behind:
            raise OSError("that part of the file was not read")
        return content.tail[start - behind : start - behind + size]
