"""The beginning and the end of a stranger's file, at the same cost however large it is.

No link is followed anywhere below the folder, and nothing but a plain file is opened.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath

from seatrial.errors import StoreError

_STEP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ELOOP: "it is a link, or lies behind one, and links are not followed",
    errno.ENOTDIR: "it lies behind something that is no folder, or behind a link, and links are not followed",
    errno.ENXIO: "it is no plain file",
    errno.EACCES: "this user may not read it",
    errno.ENAMETOOLONG: "no file can have a name so long",
}


@dataclass(frozen=True, slots=True)
class BoundedContent:
    """What was read of a file: all of it as `head`, or its beginning and, as `tail`, its end."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bool:
        """Whether nothing is left out."""
        return self.left_out == 0

    @property
    def left_out(self) -> int:
        """How many bytes between beginning and end were not read."""
        return max(0, self.size - len(self.head) - len(self.tail))

    def text(self) -> str:
        """What can be read of it as text, with a line that says how much is left out if anything is."""
        head = self.head.decode("utf-8", "replace")
        if self.whole:
            return head + self.tail.decode("utf-8", "replace")
        return f"{head}\n… {self.left_out:,} bytes are left out here …\n{self.tail.decode('utf-8', 'replace')}"


def bounded(content: bytes, limit: int = 2**18) -> BoundedContent:
    """The same of bytes that are in memory already."""
    if len(content) <= limit:
        return BoundedContent(content, b"", len(content))
    return BoundedContent(content[: limit - limit // 4], content[len(content) - limit // 4 :], len(content))


def read_bounded(path: Path, folder: Path, limit: int = 2**18) -> BoundedContent:
    """At most `limit` bytes of a plain file below a folder, most of them from its beginning.

    Raises StoreError that says what is in the way: no such file, a link on the path, a pipe, a way out of the folder.
    """
    with open_plain(path, folder) as file:
        size = os.fstat(file).st_size
        if size <= limit:
            content = os.pread(file, limit, 0)
            return BoundedContent(content, b"", len(content))
        tail = limit // 4
        return BoundedContent(os.pread(file, limit - tail, 0), os.pread(file, tail, size - tail), size)


@contextmanager
def open_plain(path: Path, folder: Path) -> Iterator[int]:
    """The descriptor of a plain file below a folder. Raises StoreError as `read_bounded` does."""
    try:
        file = _open(_names(path, folder), folder)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = _REASONS.get(number or 0, "its name is none that a file can have" if number is None else str(error))
        raise StoreError(f"{path}: cannot be shown: {reason}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise StoreError(f"{path}: cannot be shown: it is no plain file")
        yield file
    finally:
        os.close(file)


def _names(path: Path, folder: Path) -> tuple[str, ...]:
    below = PurePath(path)
    if below.is_absolute():
        if not below.is_relative_to(folder):
            raise StoreError(f"{path}: cannot be shown: it is not below {folder}")
        below = below.relative_to(folder)
    if not below.parts or ".." in below.parts:
        raise StoreError(f"{path}: cannot be shown: expected the path of a file below {folder}, without `..`")
    return below.parts


def _open(names: tuple[str, ...], folder: Path) -> int:
    step = os.open(folder, _STEP)
    try:
        for name in names[:-1]:
            step, last = os.open(name, _STEP, dir_fd=step), step
            os.close(last)
        return os.open(names[-1], _FILE, dir_fd=step)
    finally:
        os.close(step)
