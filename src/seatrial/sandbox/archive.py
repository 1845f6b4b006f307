"""Packing files of a directory that somebody hostile may be changing meanwhile; `unpacking.py` is the other way.

Every step goes through directory descriptors and follows no link, so nothing outside is read. The embedded backend
calls this in a child whose root file system has changed: nothing here may import anything when called.
"""

import errno
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, Literal

from seatrial.errors import ContentError, SandboxError, TooLargeError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, in case a pipe has taken the place of the file that was looked at.
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HEADER_BYTES = 512
_MAX_DEPTH = 200
MANY_IDS = 2**16
"""A sandbox has no more users when they are not those of this machine."""
_NOBODY = 65534


def pack(
    path: str,
    archive: BinaryIO,
    limit: int,
    directory_fd: int | None = None,
    first_id: int = 0,
    max_depth: int = _MAX_DEPTH,
) -> None:
    """Pack a file under its own name, or a directory as `.` with what is below; links are packed as links.

    Pipes, sockets and devices below a directory are left out; hard links become files of their own. Owners are counted
    from `first_id`. Raises FileNotFoundError, ContentError for anything else that cannot be packed, TooLargeError when
    files and headers take more than `limit` bytes.
    """
    path = path.rstrip("/") or "/"
    try:
        status = os.stat(path, dir_fd=directory_fd, follow_symlinks=False)
    except OSError as error:  # links that lead in a circle, too
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise ContentError(f"{path!r} is a pipe, a socket or a device: only files, directories and links can be packed")
    # The other format would write down parts of a second, in a header of their own for every file.
    shape = tarfile.GNU_FORMAT
    with tarfile.open(fileobj=archive, mode="w", format=shape, encoding="utf-8", errors="surrogateescape") as tar:
        source = _Source(tar, path, limit, first_id, max_depth)
        try:
            source.add(directory_fd, path, "." if stat.S_ISDIR(status.st_mode) else os.path.basename(path), depth=0)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ContentError(f"{path!r} cannot be packed: {error}") from error


def open_folder(
    top: int, parts: Sequence[str], *, missing: Literal["make", "raise"] = "raise", owner: int | None = None
) -> int:
    """A descriptor of the directory `parts` below `top`, reached without following a link.

    With `make`, missing directories are made, for an `owner` if one is given, and anything else in the way raises
    SandboxError; with `raise`, whatever is not a directory counts as missing and raises FileNotFoundError.
    """
    current = os.dup(top)
    for part in parts:
        try:
            below = _make_folder(current, part, owner) if missing == "make" else _open_old(current, part, _FOLDER)
        finally:
            os.close(current)
        current = below
    return current


def _open_old(parent: int | None, name: str, flags: int) -> int:
    """Open an entry that was seen before; when something else has taken its place since, it counts as gone."""
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
        raise


def _make_folder(parent: int, name: str, owner: int | None) -> int:
    made = False
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        made = True
    try:
        descriptor = _open_old(parent, name, _FOLDER)
    except FileNotFoundError as error:
        raise SandboxError(f"{name!r} is in the way: expected a directory, found a link or a file") from error
    if made and owner is not None:
        os.fchown(descriptor, owner, owner)
    if made:
        os.fchmod(descriptor, 0o755)  # whatever the umask of this process is
    return descriptor


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end of a block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Source:
    """What is being packed, with how many bytes of it are still allowed."""

    def __init__(self, tar: tarfile.TarFile, path: str, limit: int, first_id: int, max_depth: int) -> None:
        self._tar = tar
        self._max_depth = max_depth
        self._path = path
        self._limit = limit
        self._left = limit
        self._first_id = first_id

    def add(self, parent: int | None, name: str, member: str, depth: int) -> None:
        """Pack one entry of a directory with all that is below it."""
        if depth > self._max_depth:
            raise ContentError(f"{self._path!r}: directories are nested more than {self._max_depth} deep")
        if depth:
            self._spend(_HEADER_BYTES + len(member))
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            info = self._describe(member, status, tarfile.SYMTYPE)
            info.linkname = os.readlink(name, dir_fd=parent)
            self._tar.addfile(info)
        elif stat.S_ISDIR(status.st_mode):
            with closing(_open_old(parent, name, _FOLDER)) as folder:
                self._tar.addfile(self._describe(member, os.fstat(folder), tarfile.DIRTYPE))
                self._add_entries(folder, member, depth + 1)
        elif stat.S_ISREG(status.st_mode):
            self._add_file(_open_old(parent, name, _OLD_FILE), member)

    def _add_entries(self, folder: int, member: str, depth: int) -> None:
        for name in sorted(os.listdir(folder)):
            with suppress(FileNotFoundError):  # gone since the directory was read
                self.add(folder, name, name if member == "." else f"{member}/{name}", depth)

    def _add_file(self, descriptor: int, member: str) -> None:
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode):
                self._spend(status.st_size)
                info = self._describe(member, status, tarfile.REGTYPE)
                info.size = status.st_size
                self._tar.addfile(info, _AsLongAsPromised(file))

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"{self._path!r} is larger than the limit of {self._limit} bytes")

    def _describe(self, name: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
        info = tarfile.TarInfo(name)
        info.type = kind
        info.mode = stat.S_IMODE(status.st_mode)
        info.uid, info.gid = status.st_uid, status.st_gid
        if self._first_id:
            info.uid, info.gid = (_id_inside(number, self._first_id) for number in (info.uid, info.gid))
        info.mtime = int(status.st_mtime)
        return info


def _id_inside(number: int, first_id: int) -> int:
    return number - first_id if 0 <= number - first_id < MANY_IDS else _NOBODY


class _AsLongAsPromised:
    """Reads a file that may be cut short meanwhile; its header is written already, so zeros take the missing place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Exactly `size` bytes."""
        return self._file.read(size).ljust(size, b"\0")
