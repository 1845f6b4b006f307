"""Reads files that agents, tasks and strangers' jobs wrote: regular files only, of bounded size, through no link.

`read_file`, `read_end` and `open_file` take a path whose last name must not be a link, and raise OSError. `open_below`,
`read_below` and `read_bounded` take a path in a folder of which no part may be a link, and raise StoreError. No
function waits for the other end of a pipe, and none reads more than it was asked for of a file that grows.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from seatrial.errors import StoreError

if TYPE_CHECKING:  # the spawner of sandboxes loads this module, and nothing large
    from pathlib import Path

READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
CREATE = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""To be added to how a file of ours in a stranger's folder is opened: it is made where there is none."""

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_BLOCK = 2**20
_NOT_REGULAR = "it is not a regular file"
_REASONS = {
    errno.ENOENT: "there is no such file",
    errno.ELOOP: "it is a link, or lies behind one, and links are not followed",
    errno.ENOTDIR: "it lies behind something that is no folder, or behind a link, and links are not followed",
    errno.ENXIO: _NOT_REGULAR,
    errno.EISDIR: _NOT_REGULAR,
    errno.EACCES: "this user may not read it",
    errno.ENAMETOOLONG: "no file can have a name so long",
}


class FileTooLargeError(OSError):
    """A file that has more bytes than are read; `size` is as many as are known of."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(errno.EFBIG, f"it has {size:,} bytes, expected {limit:,} at most")
        self.size = size


def read_file(path: "Path | str", limit: int) -> bytes:
    """The content of a file of at most `limit` bytes.

    Raises OSError: FileTooLargeError, ELOOP for a link, EISDIR for a folder, ENXIO for a pipe, a socket or a device.
    """
    return read_with_status(path, limit)[0]


def read_with_status(path: "Path | str", limit: int, flags: int = READ) -> tuple[bytes, os.stat_result]:
    """The same, with the status of the file that was read."""
    file = os.open(path, flags)
    try:
        status = check_regular(file, limit)
        return _read(file, status.st_size, limit), status
    finally:
        os.close(file)


def open_file(path: "Path | str", limit: int | None = None) -> BinaryIO:
    """A file to read, which has at most `limit` bytes now. Raises OSError as `read_file` does."""
    file = os.open(path, READ)
    try:
        check_regular(file, limit)
        return os.fdopen(file, "rb")
    except BaseException:
        os.close(file)
        raise


def read_end(path: "Path | str", limit: int) -> bytes:
    """The last `limit` bytes of a file. Raises OSError as `read_file` does."""
    with open_file(path) as file:
        return end_of(file.fileno(), limit)


def end_of(file: int, limit: int) -> bytes:
    return os.pread(file, limit, max(0, os.fstat(file).st_size - limit))


def check_regular(file: int, limit: int | None = None) -> os.stat_result:
    """The status of an opened file. Raises OSError as `read_file` does."""
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EISDIR if stat.S_ISDIR(status.st_mode) else errno.ENXIO, _NOT_REGULAR)
    if limit is not None and status.st_size > limit:
        raise FileTooLargeError(status.st_size, limit)
    return status


def _read(file: int, size: int, limit: int) -> bytes:
    content = os.read(file, size + 1)
    if size and len(content) == size:  # nearly always
        return content
    piece, pieces, total = content, [content], len(content)
    while piece and total <= limit:
        piece = os.read(file, min(_BLOCK, limit + 1 - total))
        pieces.append(piece)
        total += len(piece)
    if total > limit:
        raise FileTooLargeError(total, limit)
    return b"".join(pieces)


@contextmanager
def open_below(path: "Path", folder: "Path") -> Iterator[int]:
    """The descriptor of a file in a stranger's folder. Only the folder itself may be a link.

    Raises StoreError that says what is in the way: no such file, a link on the path, a pipe, a way out of the folder.
    """
    try:
        file = _open(_names(path, folder), folder)
    except (OSError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = _REASONS.get(number or 0, "its name is none that a file can have" if number is None else str(error))
        raise StoreError(f"{path}: cannot be read: {reason}") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise StoreError(f"{path}: cannot be read: {_NOT_REGULAR}")
        yield file
    finally:
        os.close(file)


def read_below(path: "Path", folder: "Path", limit: int) -> bytes:
    """The content of a file of at most `limit` bytes below a folder. Raises StoreError as `open_below` does."""
    with open_below(path, folder) as file:
        try:
            return _read(file, check_regular(file, limit).st_size, limit)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from None


def _names(path: "Path", folder: "Path") -> tuple[str, ...]:
    below = path
    if path.is_relative_to(folder):
        below = path.relative_to(folder)
    elif path.is_absolute():
        raise StoreError(f"{path}: cannot be read: it is not below {folder}")
    if not below.parts or ".." in below.parts:
        raise StoreError(f"{path}: cannot be read: expected the path of a file below {folder}, without `..`")
    return below.parts


def _open(names: tuple[str, ...], folder: "Path") -> int:
    step = os.open(folder.resolve(), FOLDER)
    try:
        for name in names[:-1]:
            step, last = os.open(name, FOLDER, dir_fd=step), step
            os.close(last)
        return os.open(names[-1], READ, dir_fd=step)
    finally:
        os.close(step)


class BoundedContent(NamedTuple):
    """What was read of a file: all of it as `head`, or its beginning and, as `tail`, its end."""

    head: bytes
    tail: bytes
    size: int

    @property
    def whole(self) -> bool:
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


def read_bounded(path: "Path", folder: "Path", limit: int = 2**18) -> BoundedContent:
    """At most `limit` bytes of a plain file below a folder, most of them from its beginning.

    Raises StoreError that says what is in the way: no such file, a link on the path, a pipe, a way out of the folder.
    """
    with open_below(path, folder) as file:
        size = os.fstat(file).st_size
        if size <= limit:
            content = os.pread(file, limit, 0)
            return BoundedContent(content, b"", len(content))
        tail = limit // 4
        return BoundedContent(os.pread(file, limit - tail, 0), os.pread(file, tail, size - tail), size)
