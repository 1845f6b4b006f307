"""Reading archives however they are compressed: told by their first bytes, since names and media types lie."""

import bz2
import gzip
import io
import lzma
import zlib
from typing import IO, cast

import zstandard

from seatrial.errors import ImageError

_WINDOW = 2**27  # what decompressing may take of memory
BROKEN = (zlib.error, zstandard.ZstdError, lzma.LZMAError, gzip.BadGzipFile, EOFError)
"""What the libraries raise over broken data, besides OSError and ValueError."""


def open_compressed(source: io.BufferedReader) -> IO[bytes]:
    """The uncompressed bytes of a stream: gzip, zstd, bzip2, xz, or as it is. Raises ImageError for an empty one."""
    start = source.peek(6)[:6]
    if not start:
        raise ImageError("the archive is empty")
    if start.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=source))
    if start.startswith(b"\x28\xb5\x2f\xfd") or (start[1:4] == b"\x2a\x4d\x18" and 0x50 <= start[0] <= 0x5F):
        reader = zstandard.ZstdDecompressor(max_window_size=_WINDOW).stream_reader(source, read_across_frames=True)
        return cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, reader), 2**18))
    if start.startswith(b"BZh"):
        return bz2.BZ2File(source)
    if start == b"\xfd7zXZ\0":
        return lzma.LZMAFile(source)
    return source
