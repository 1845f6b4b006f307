"""Tar archives into and out of a directory that somebody hostile may be changing meanwhile.

Every step goes through directory descriptors and follows no link, so nothing outside is touched or read. The embedded
backend calls this in a child whose root file system has changed: nothing here may import anything when called.
"""

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, Literal

from seatrial.errors import ContentError, SandboxError, TooLargeError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, in case a pipe has taken the place of the file that was looked at.
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CHUNK = 2**20
_HEADER_BYTES = 512
_MAX_DEPTH = 200
# What the tarfile module raises over broken archives, far beyond its own errors.
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, EOFError, RecursionError)

_Parts = tuple[str, ...]


def unpack(archive: BinaryIO, directory_fd: int) -> None:
    """Unpack files, directories and links below a directory; what is in the way of a file is replaced, not followed.

    Directories that exist keep their mode and owner. Owners and setuid bits are set only by root. Raises SandboxError
    naming the member for a name that is absolute or has `..`, a path through a link, a device, pipe or sparse file, a
    hard link to anything but an earlier file of the archive, and for whatever cannot be read or written.
    """
    target = _Target(directory_fd)
    try:
        with tarfile.open(fileobj=archive, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                target.add(tar, member)
    except _UNREADABLE as error:
        raise SandboxError(f"the archive is not readable as an uncompressed tar: {error}") from error
    target.seal()


def pack(path: str, archive: BinaryIO, limit: int, directory_fd: int | None = None) -> None:
    """Pack a file under its own name, or a directory as `.` with what is below; links are packed as links.

    Pipes, sockets and devices below a directory are left out; hard links become files of their own. Raises
    FileNotFoundError, ContentError for anything else that cannot be packed, TooLargeError when files and headers take
    more than `limit` bytes.
    """
    path = path.rstrip("/") or "/"
    try:
        status = os.stat(path, dir_fd=directory_fd, follow_symlinks=False)
    except NotADirectoryError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from error
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        raise ContentError(f"{path!r} is a pipe, a socket or a device: only files, directories and links can be packed")
    with tarfile.open(fileobj=archive, mode="w", encoding="utf-8", errors="surrogateescape") as tar:
        source = _Source(tar, path, limit)
        try:
            source.add(directory_fd, path, "." if stat.S_ISDIR(status.st_mode) else os.path.basename(path), depth=0)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ContentError(f"{path!r} cannot be packed: {error}") from error


def open_folder(top: int, parts: Sequence[str], *, missing: Literal["make", "raise"] = "raise") -> int:
    """A descriptor of the directory `parts` below `top`, reached without following a link.

    With `make`, missing directories are made and anything else in the way raises SandboxError; with `raise`, whatever
    is not a directory counts as missing and raises FileNotFoundError.
    """
    current = os.dup(top)
    for part in parts:
        try:
            below = _make_folder(current, part) if missing == "make" else _open_old(current, part, _FOLDER)
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


def _make_folder(parent: int, name: str) -> int:
    made = False
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=parent)
        made = True
    try:
        descriptor = _open_old(parent, name, _FOLDER)
    except FileNotFoundError as error:
        raise SandboxError(f"{name!r} is in the way: expected a directory, found a link or a file") from error
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


class _Target:
    """The directory being filled, with what this archive has put there so far."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._files: set[_Parts] = set()
        self._folders: dict[_Parts, tarfile.TarInfo] = {}

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Make one member. Raises SandboxError, always naming the member."""
        try:
            parts = _safe_parts(member.name)
            _check_kind(member, parts)
            if parts:
                with closing(open_folder(self._top, parts[:-1], missing="make")) as parent:
                    self._make(tar, member, parts, parent)
        except SandboxError as error:
            raise SandboxError(f"archive member {member.name!r}: {error}") from error
        except _UNREADABLE as error:
            raise SandboxError(f"archive member {member.name!r} cannot be unpacked: {error}") from error

    def seal(self) -> None:
        """Give the new directories their modes and times, which only now nothing changes any more."""
        for parts in sorted(self._folders, key=len, reverse=True):
            member = self._folders[parts]
            try:
                with closing(open_folder(self._top, parts)) as descriptor:
                    _stamp(descriptor, member)
            except _UNREADABLE as error:
                raise SandboxError(f"archive member {member.name!r} cannot be finished: {error}") from error

    def _make(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: _Parts, parent: int) -> None:
        name = parts[-1]
        if member.isdir():
            self._make_folder(member, parts, parent)
            return
        source = _safe_parts(member.linkname) if member.islnk() else ()
        if member.islnk() and (source not in self._files or source == parts):
            raise SandboxError(f"hard link to {member.linkname!r}, which is not an earlier file of the archive")
        self._clear(parent, parts)
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
            _own(member, name, parent)
            os.utime(name, ns=_times(member), dir_fd=parent, follow_symlinks=False)
        elif member.islnk():
            with closing(open_folder(self._top, source[:-1])) as folder:
                os.link(source[-1], name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
            self._files.add(parts)
        else:
            _write_file(tar, member, parent, name)
            self._files.add(parts)

    def _make_folder(self, member: tarfile.TarInfo, parts: _Parts, parent: int) -> None:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                if parts in self._folders:
                    self._folders[parts] = member
                return
        self._clear(parent, parts)
        os.mkdir(parts[-1], 0o700, dir_fd=parent)
        self._folders[parts] = member

    def _clear(self, parent: int, parts: _Parts) -> None:
        """Make room for a new entry. A directory goes only when it is empty."""
        self._files.discard(parts)
        try:
            os.unlink(parts[-1], dir_fd=parent)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            os.rmdir(parts[-1], dir_fd=parent)
            self._folders.pop(parts, None)


def _safe_parts(name: str) -> _Parts:
    if name.startswith("/"):
        raise SandboxError("absolute names are refused")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise SandboxError("names with .. are refused")
    return parts


def _check_kind(member: tarfile.TarInfo, parts: _Parts) -> None:
    # A negative size would also lead the tarfile module backwards, for ever.
    if member.size < 0 or member.issparse():
        raise SandboxError("sparse files and negative sizes are refused")
    if not (member.isdir() or member.isreg() or member.issym() or member.islnk()):
        raise SandboxError("only files, directories and links can be unpacked, no devices or pipes")
    if not parts and not member.isdir():
        raise SandboxError("the name is empty")


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
    content = tar.extractfile(member)
    if content is None:
        raise SandboxError("has no content")
    with os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=parent), "wb") as file:
        shutil.copyfileobj(content, file, _CHUNK)
        if file.tell() != member.size:
            raise SandboxError(f"the archive ends after {file.tell()} of {member.size} bytes")
        file.flush()
        _stamp(file.fileno(), member)


def _stamp(descriptor: int, member: tarfile.TarInfo) -> None:
    owned = _own(member, descriptor)
    os.fchmod(descriptor, member.mode & (0o7777 if owned else 0o777))
    os.utime(descriptor, ns=_times(member))


def _own(member: tarfile.TarInfo, target: int | str, parent: int | None = None) -> bool:
    """Hand an entry to its owner, if we may; otherwise it stays ours and must not become setuid."""
    if os.geteuid() != 0:
        return False
    try:
        os.chown(target, member.uid, member.gid, dir_fd=parent, follow_symlinks=parent is None)
    except OSError as error:
        if error.errno != errno.EINVAL:  # this user namespace does not have the id
            raise
        return False
    return True


def _times(member: tarfile.TarInfo) -> tuple[int, int]:
    moment = int(member.mtime * 10**9)
    return moment, moment


class _Source:
    """What is being packed, with how many bytes of it are still allowed."""

    def __init__(self, tar: tarfile.TarFile, path: str, limit: int) -> None:
        self._tar = tar
        self._path = path
        self._limit = limit
        self._left = limit

    def add(self, parent: int | None, name: str, member: str, depth: int) -> None:
        """Pack one entry of a directory with all that is below it."""
        if depth > _MAX_DEPTH:
            raise ContentError(f"{self._path!r}: directories are nested more than {_MAX_DEPTH} deep")
        if depth:
            self._spend(_HEADER_BYTES + len(member))
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            info = _describe(member, status, tarfile.SYMTYPE)
            info.linkname = os.readlink(name, dir_fd=parent)
            self._tar.addfile(info)
        elif stat.S_ISDIR(status.st_mode):
            with closing(_open_old(parent, name, _FOLDER)) as folder:
                self._tar.addfile(_describe(member, os.fstat(folder), tarfile.DIRTYPE))
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
                info = _describe(member, status, tarfile.REGTYPE)
                info.size = status.st_size
                self._tar.addfile(info, _AsLongAsPromised(file))

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLargeError(f"{self._path!r} is larger than the limit of {self._limit} bytes")


def _describe(name: str, status: os.stat_result, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = stat.S_IMODE(status.st_mode)
    info.uid, info.gid = status.st_uid, status.st_gid
    info.mtime = status.st_mtime
    return info


class _AsLongAsPromised:
    """Reads a file that may be cut short meanwhile; its header is written already, so zeros take the missing place."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Exactly `size` bytes."""
        return self._file.read(size).ljust(size, b"\0")
