"""The files of a job's index: its lines, and a checkpoint. They are a cache: what cannot be read is not there."""

import os
from pathlib import Path

from seatrial.store.files import check_plain, read_plain, replace_file, write_all

_MAX_BYTES = 2**31
_MOST_OF_A_CHECKPOINT = 4
"""So many times as large as its index is no checkpoint: it says what the lines say. A larger one was made by others."""

INDEX = "index.jsonl"
CHECKPOINT = "index.checkpoint"


class IndexFile:
    """The index of the job in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / INDEX
        self._checkpoint = folder / CHECKPOINT

    def read(self) -> bytes:
        """All lines that are written, nothing where there is no such file."""
        return _read(self._path)

    def read_checkpoint(self, index: bytes) -> bytes:
        """The checkpoint, nothing where there is none that can be about this index."""
        return _read(self._checkpoint, _MOST_OF_A_CHECKPOINT * len(index))

    def write_checkpoint(self, checkpoint: bytes) -> None:
        """Put a checkpoint in the place of the last one. Raises OSError."""
        replace_file(self._checkpoint, checkpoint)

    def read_from(self, start: int, limit: int) -> bytes:
        """Whole lines from a byte on, of at most so many bytes together; nothing where there are none."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(file, "rb") as opened:
                check_plain(file, _MAX_BYTES)
                found = os.pread(opened.fileno(), limit, start)
        except OSError:
            return b""
        return found[: found.rfind(b"\n") + 1]

    def append(self, lines: bytes) -> None:
        """Add lines. Raises OSError."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o666)
        try:
            write_all(file, lines)
        finally:
            os.close(file)


def _read(path: Path, limit: int = _MAX_BYTES) -> bytes:
    try:
        return read_plain(path, limit)
    except OSError:
        return b""
