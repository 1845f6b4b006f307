"""Tar archives in and out of directories that somebody hostile may be changing meanwhile.

Every step goes through directory descriptors and follows no link, so nothing outside is read or touched. The embedded
backend calls this in a child whose root file system has changed: nothing here may import anything when called.
"""

import errno
import io
import os
import shutil
import stat
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, BinaryIO, Literal

from seatrial.errors import ContentError, SandboxError, SeatrialError, TooLargeError
from seatrial.sandbox.layers import attributes_of, is_gone_mark, is_made_anew, is_users, knows_owner

UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, EOFError, RecursionError, MemoryError)
"""What the tarfile module raises over broken archives, far beyond its own errors."""
MANY_IDS = 2**16
"""A sandbox has no more users when they are not those of this machine."""


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, in case a pipe has taken the place of the file that was looked at.
_OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 2**20
_MAX_DEPTH = 200
_NOBODY = 65534

Parts = tuple[str, ...]
Manner = Literal["files", "layer", "small layer"]
"""Whether an archive brings files, or is a layer: then what it says of directories that are there counts too, what is
marked as gone is removed, and directories give way with all that is in them; in a small layer, none has to."""


# The tarfile module, with names that need not be UTF-8


def read_tar(archive: Any, mode: Literal["r:", "r|"] = "r:", bufsize: int = tarfile.RECORDSIZE) -> tarfile.TarFile:
    """An uncompressed archive to be read, from a file or from whatever has a `read`."""
    return tarfile.open(fileobj=archive, mode=mode, bufsize=bufsize, encoding="utf-8", errors="surrogateescape")


def write_tar(archive: Any, mode: Literal["w", "w|"] = "w", shape: int = tarfile.PAX_FORMAT) -> tarfile.TarFile:
    """An archive to be written, to a file or to whatever has a `write`."""
    return tarfile.open(fileobj=archive, mode=mode, format=shape, encoding="utf-8", errors="surrogateescape")


def folder_member(name: str, mode: int = 0o755) -> tarfile.TarInfo:
    """A directory of root's."""
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    return member


def link_member(name: str, target: str) -> tarfile.TarInfo:
    """A link of root's."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


def add_file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))


def safe_parts(name: str, *, absolute: Literal["refused", "below"] = "refused") -> Parts:
    """The way to a member, absolute ones perhaps `below` too. Raises SandboxError for one that may lead elsewhere."""
    if name.startswith("/") and absolute == "refused":
        raise SandboxError("absolute names are refused")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise SandboxError("names with .. are refused")
    return parts


def check_kind(member: tarfile.TarInfo, parts: Parts) -> None:
    """Raise SandboxError for a member that nobody should unpack."""
    # A negative size would also lead the tarfile module backwards, for ever.
    if member.size < 0 or member.issparse():
        raise SandboxError("sparse files and negative sizes are refused")
    if not (member.isdir() or member.isreg() or member.issym() or member.islnk()):
        raise SandboxError("only files, directories and links can be unpacked, no devices or pipes")
    if not parts and not member.isdir():
        raise SandboxError("the name is empty")


def walk_members(
    tar: tarfile.TarFile, take: Callable[[tarfile.TarInfo], None], kind: type[SeatrialError] = SandboxError
) -> None:
    """Have each member taken. Whatever goes wrong with one raises one kind of error, which names the member."""
    while (member := tar.next()) is not None:
        tar.members.clear()  # type: ignore[attr-defined] # it would remember them all
        try:
            take(member)
        except (SandboxError, kind) as error:
            raise kind(f"archive member {member.name!r}: {error}") from error
        except UNREADABLE as error:
            raise kind(f"archive member {member.name!r} cannot be unpacked: {error}") from error


# Directories by descriptor


@contextmanager
def closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)


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


# Packing files


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
    with write_tar(archive, shape=tarfile.GNU_FORMAT) as tar:
        source = _Source(tar, path, limit, first_id, max_depth)
        try:
            source.add(directory_fd, path, "." if stat.S_ISDIR(status.st_mode) else os.path.basename(path), depth=0)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise ContentError(f"{path!r} cannot be packed: {error}") from error


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
            self._spend(tarfile.BLOCKSIZE + len(member))
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


# Unpacking


def unpack(archive: BinaryIO, directory_fd: int, first_id: int = 0, manner: Manner = "files") -> None:
    """Unpack files, directories and links below a directory; what is in the way of a file is replaced, not followed.

    Directories that exist keep their mode and owner. Owners and setuid bits are set only by root, and the archive's ids
    are counted from `first_id`. Raises SandboxError naming the member for a name that is absolute or has `..`, a path
    through a link, a device, pipe or sparse file, a hard link to anything but an earlier file of the archive, and for
    whatever cannot be read or written.
    """
    target = _Target(directory_fd, _Owners(first_id), manner)
    try:
        with read_tar(archive) as tar:
            walk_members(tar, partial(target.add, tar))
    except UNREADABLE as error:
        raise SandboxError(f"the archive is not readable as an uncompressed tar: {error}") from error
    finally:
        target.leave_parent()
    target.seal()


class _Target:
    """The directory being filled, with what this archive has put there so far."""

    def __init__(self, top: int, owners: "_Owners", manner: Manner) -> None:
        self._top = top
        self._owners = owners
        self._is_layer = manner != "files"
        self._clears_folders = manner == "layer"
        self._files: set[Parts] = set()
        self._folders: dict[Parts, tarfile.TarInfo] = {}
        self._parent: tuple[Parts, int] | None = None
        """Where the last member went, kept open: the next one mostly goes there too."""

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = safe_parts(member.name)
        if self._is_layer and parts and is_gone_mark(member):
            with suppress(FileNotFoundError), closing(open_folder(self._top, parts[:-1])) as parent:
                self._clear(parent, parts)
            return
        check_kind(member, parts)
        if parts:
            if self._parent is None or self._parent[0] != parts[:-1]:
                self.leave_parent()
                descriptor = open_folder(self._top, parts[:-1], missing="make", owner=self._owners.root)
                self._parent = (parts[:-1], descriptor)
            self._make(tar, member, parts, self._parent[1])

    def leave_parent(self) -> None:
        if self._parent is not None:
            os.close(self._parent[1])
            self._parent = None

    def seal(self) -> None:
        """Give the new directories their modes and times, which only now nothing changes any more."""
        for parts in sorted(self._folders, key=len, reverse=True):
            member = self._folders[parts]
            try:
                with closing(open_folder(self._top, parts)) as descriptor:
                    self._stamp(member, descriptor)
            except UNREADABLE as error:
                raise SandboxError(f"archive member {member.name!r} cannot be finished: {error}") from error

    def _make(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: Parts, parent: int) -> None:
        name = parts[-1]
        if member.isdir():
            self._make_folder(member, parts, parent)
            return
        source = safe_parts(member.linkname) if member.islnk() else ()
        if member.islnk() and (source not in self._files or source == parts):
            raise SandboxError(f"hard link to {member.linkname!r}, which is not an earlier file of the archive")
        self._clear(parent, parts)
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=parent)
            self._owners.own(member, name, parent)
            os.utime(name, ns=times_of(member), dir_fd=parent, follow_symlinks=False)
        elif member.islnk():
            with closing(open_folder(self._top, source[:-1])) as folder:
                os.link(source[-1], name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
            self._files.add(parts)
        else:
            with new_file(tar, member, name, parent) as descriptor:
                self._stamp(member, descriptor)
            self._files.add(parts)

    def _make_folder(self, member: tarfile.TarInfo, parts: Parts, parent: int) -> None:
        if self._is_layer and is_made_anew(member):
            self._clear(parent, parts)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                if parts in self._folders or self._is_layer:
                    self._folders[parts] = member
                return
        self._clear(parent, parts)
        os.mkdir(parts[-1], 0o700, dir_fd=parent)
        if self._owners.root is not None:  # whoever has to start over must be able to enter it
            os.chown(parts[-1], self._owners.root, self._owners.root, dir_fd=parent, follow_symlinks=False)
        self._folders[parts] = member

    def _clear(self, parent: int, parts: Parts) -> None:
        """Make room for a new entry. A directory goes only when it is empty, but for a layer."""
        self._files.discard(parts)
        if clear(parts[-1], parent, folders="with all" if self._clears_folders else "empty") == "folder":
            self._folders.pop(parts, None)
            if self._parent is not None and self._parent[1] != parent:  # it may have been in there
                self.leave_parent()

    def _stamp(self, member: tarfile.TarInfo, descriptor: int) -> None:
        owned = not knows_owner(member) or self._owners.own(member, descriptor)
        stamp(member, descriptor, is_users, mode=member.mode & (0o7777 if owned else 0o777))


def clear(
    name: str, parent: int | None = None, *, folders: Literal["empty", "with all"]
) -> Literal["nothing", "file", "folder"]:
    """Remove what is in the way of a new entry; returns what that was. Raises OSError for a directory that stays."""
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        return "nothing"
    except IsADirectoryError:
        if folders == "with all":
            shutil.rmtree(name, dir_fd=parent)
        else:
            os.rmdir(name, dir_fd=parent)
        return "folder"
    return "file"


@contextmanager
def new_file(tar: tarfile.TarFile, member: tarfile.TarInfo, name: str, parent: int | None = None) -> Iterator[int]:
    """A new file with the content of a member, for the length of the block. Raises SandboxError if that is cut off."""
    content: Any = tar.extractfile(member) if member.issparse() else tar.fileobj
    if not member.issparse():  # what the library would put around the file takes longer than a small one
        content.seek(member.offset_data)
    with os.fdopen(os.open(name, _NEW_FILE, 0o600, dir_fd=parent), "wb") as file:
        left = member.size
        while left and (chunk := content.read(min(left, _CHUNK))):
            if member.issparse() and not chunk.strip(b"\0"):
                file.seek(len(chunk), os.SEEK_CUR)
            else:
                file.write(chunk)
            left -= len(chunk)
        if left:
            raise SandboxError(f"the archive ends after {member.size - left} of {member.size} bytes")
        file.flush()
        if member.issparse():
            file.truncate(member.size)
        yield file.fileno()


def stamp(member: tarfile.TarInfo, target: int | str, attributes: Callable[[str], bool], mode: int) -> None:
    """Give a file or directory its mode, attributes and times: after its owner, with whom the kernel removes some."""
    os.chmod(target, mode)
    for name, value in attributes_of(member, attributes).items() if member.pax_headers else ():
        with suppress(OSError):  # a file system without any
            os.setxattr(target, name, value)
    os.utime(target, ns=times_of(member))


def times_of(member: tarfile.TarInfo) -> tuple[int, int]:
    """When it was read and changed, for `os.utime`."""
    moment = int(member.mtime * 10**9)
    return moment, moment


class _Owners:
    """Whom the entries of an archive belong to: its ids as they are, or counted from `first_id`."""

    def __init__(self, first_id: int) -> None:
        self._first = first_id
        self._may_give = os.geteuid() == 0

    @property
    def root(self) -> int | None:
        """Whom to give what nobody is named for; None when it is theirs already."""
        return self._first or None

    def own(self, member: tarfile.TarInfo, target: int | str, parent: int | None = None) -> bool:
        """Hand an entry to its owner, if we may; otherwise it must not become setuid."""
        if not self._may_give:
            return False
        if self._first and max(member.uid, member.gid) >= MANY_IDS:
            self._give(target, self._first, self._first, parent)
            return False
        try:
            self._give(target, self._first + member.uid, self._first + member.gid, parent)
        except OSError as error:
            if error.errno != errno.EINVAL:  # this user namespace does not have the id
                raise
            return False
        return True

    def _give(self, target: int | str, uid: int, gid: int, parent: int | None) -> None:
        os.chown(target, uid, gid, dir_fd=parent, follow_symlinks=parent is None)
