"""Unpacking tar archives below a directory that somebody hostile may be changing meanwhile.

Every step goes through directory descriptors and follows no link, so nothing outside is touched. The embedded backend
calls this in a child whose root file system has changed: nothing here may import anything when called.
"""

import errno
import os
import shutil
import stat
import tarfile
from contextlib import suppress
from typing import BinaryIO, Literal

from seatrial.errors import SandboxError
from seatrial.sandbox.archive import MANY_IDS, closing, open_folder
from seatrial.sandbox.layer_marks import attributes_of, is_gone_mark, is_made_anew, knows_owner

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 2**20
# What the tarfile module raises over broken archives, far beyond its own errors.
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, EOFError, RecursionError)

_Parts = tuple[str, ...]
Manner = Literal["files", "layer", "small layer"]
"""Whether an archive brings files, or is a layer: then what it says of directories that are there counts too, what is
marked as gone is removed, and directories give way with all that is in them; in a small layer, none has to."""


def unpack(archive: BinaryIO, directory_fd: int, first_id: int = 0, manner: Manner = "files") -> None:
    """Unpack files, directories and links below a directory; what is in the way of a file is replaced, not followed.

    Directories that exist keep their mode and owner. Owners and setuid bits are set only by root, and the archive's ids
    are counted from `first_id`. Raises SandboxError naming the member for a name that is absolute or has `..`, a path
    through a link, a device, pipe or sparse file, a hard link to anything but an earlier file of the archive, and for
    whatever cannot be read or written.
    """
    target = _Target(directory_fd, _Owners(first_id), manner)
    try:
        with tarfile.open(fileobj=archive, mode="r:", encoding="utf-8", errors="surrogateescape") as tar:
            for member in tar:
                target.add(tar, member)
    except _UNREADABLE as error:
        raise SandboxError(f"the archive is not readable as an uncompressed tar: {error}") from error
    target.seal()


class _Target:
    """The directory being filled, with what this archive has put there so far."""

    def __init__(self, top: int, owners: "_Owners", manner: Manner) -> None:
        self._top = top
        self._owners = owners
        self._manner = manner
        self._files: set[_Parts] = set()
        self._folders: dict[_Parts, tarfile.TarInfo] = {}

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Make one member. Raises SandboxError, always naming the member."""
        try:
            parts = safe_parts(member.name)
            if self._manner != "files" and parts and is_gone_mark(member):
                self._remove(parts)
                return
            check_kind(member, parts)
            if parts:
                with closing(open_folder(self._top, parts[:-1], missing="make", owner=self._owners.root)) as parent:
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
                    _stamp(descriptor, member, self._owners)
            except _UNREADABLE as error:
                raise SandboxError(f"archive member {member.name!r} cannot be finished: {error}") from error

    def _make(self, tar: tarfile.TarFile, member: tarfile.TarInfo, parts: _Parts, parent: int) -> None:
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
            os.utime(name, ns=_times(member), dir_fd=parent, follow_symlinks=False)
        elif member.islnk():
            with closing(open_folder(self._top, source[:-1])) as folder:
                os.link(source[-1], name, src_dir_fd=folder, dst_dir_fd=parent, follow_symlinks=False)
            self._files.add(parts)
        else:
            _write_file(tar, member, os.open(name, _NEW_FILE, 0o600, dir_fd=parent), self._owners)
            self._files.add(parts)

    def _remove(self, parts: _Parts) -> None:
        with suppress(FileNotFoundError), closing(open_folder(self._top, parts[:-1])) as parent:
            self._clear(parent, parts)

    def _make_folder(self, member: tarfile.TarInfo, parts: _Parts, parent: int) -> None:
        if self._manner != "files" and is_made_anew(member):
            self._clear(parent, parts)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode):
                if parts in self._folders or self._manner != "files":
                    self._folders[parts] = member
                return
        self._clear(parent, parts)
        os.mkdir(parts[-1], 0o700, dir_fd=parent)
        if self._owners.root is not None:  # whoever has to start over must be able to enter it
            os.chown(parts[-1], self._owners.root, self._owners.root, dir_fd=parent, follow_symlinks=False)
        self._folders[parts] = member

    def _clear(self, parent: int, parts: _Parts) -> None:
        """Make room for a new entry. A directory goes only when it is empty, but for a layer."""
        self._files.discard(parts)
        try:
            os.unlink(parts[-1], dir_fd=parent)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            if self._manner == "layer":
                shutil.rmtree(parts[-1], dir_fd=parent)
            else:
                os.rmdir(parts[-1], dir_fd=parent)
            self._folders.pop(parts, None)


def safe_parts(name: str) -> _Parts:
    """The way to a member. Raises SandboxError for one that may lead elsewhere."""
    if name.startswith("/"):
        raise SandboxError("absolute names are refused")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise SandboxError("names with .. are refused")
    return parts


def check_kind(member: tarfile.TarInfo, parts: _Parts) -> None:
    """Raise SandboxError for a member that nobody should unpack."""
    # A negative size would also lead the tarfile module backwards, for ever.
    if member.size < 0 or member.issparse():
        raise SandboxError("sparse files and negative sizes are refused")
    if not (member.isdir() or member.isreg() or member.issym() or member.islnk()):
        raise SandboxError("only files, directories and links can be unpacked, no devices or pipes")
    if not parts and not member.isdir():
        raise SandboxError("the name is empty")


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, target: int, owners: "_Owners") -> None:
    with os.fdopen(target, "wb") as file:
        content = tar.extractfile(member)
        if content is None:
            raise SandboxError("has no content")
        shutil.copyfileobj(content, file, _CHUNK)
        if file.tell() != member.size:
            raise SandboxError(f"the archive ends after {file.tell()} of {member.size} bytes")
        file.flush()
        _stamp(file.fileno(), member, owners)


def _stamp(descriptor: int, member: tarfile.TarInfo, owners: "_Owners") -> None:
    for name, value in attributes_of(member).items() if member.pax_headers else ():
        with suppress(OSError):  # a file system without any
            os.setxattr(descriptor, name, value)
    owned = not knows_owner(member) or owners.own(member, descriptor)
    os.fchmod(descriptor, member.mode & (0o7777 if owned else 0o777))
    os.utime(descriptor, ns=_times(member))


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


def _times(member: tarfile.TarInfo) -> tuple[int, int]:
    moment = int(member.mtime * 10**9)
    return moment, moment
