"""From a layer's archive to a directory that overlayfs takes: what the archive removes becomes whiteouts.

Runs in a child that has made the directory its root (`worker.py`): whatever names and links an archive has, the kernel
leads them nowhere else. Nothing here may import anything when called.
"""

import errno
import os
import shutil
import stat
import tarfile
from contextlib import suppress
from typing import IO, Literal, NamedTuple

from seatrial.errors import ImageError
from seatrial.images.compression import BROKEN

Owners = Literal["kept", "squashed"]
"""Whether files belong to whom the archive says, or all to one user because this user has no other ids."""

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
XATTR = "SCHILY.xattr."
_CHUNK = 2**20
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_ID = 2**32 - 2
# A layer should say how its directories are; where it leaves out one of these, the usual mode would break programs.
_USUAL_MODES = {"/tmp": 0o1777, "/var/tmp": 0o1777, "/root": 0o700}  # noqa: S108 - paths in the image
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, RecursionError, MemoryError, *BROKEN)


class LayerBounds(NamedTuple):
    """How much an archive may unpack to: a small one can hold more than any disk."""

    max_bytes: int = 64 * 2**30
    max_entries: int = 4_000_000


class LayerFormat(NamedTuple):
    """How this machine's overlays want their layers."""

    owners: Owners
    xattrs: Literal["trusted", "user"]


class Unpacked(NamedTuple):
    """What became of an archive. Devices are left out: dead in a sandbox, they would be alive on the host."""

    size: int
    entries: int
    devices: int
    squashed: int
    hides_below: bool


def unpack_layer(stream: IO[bytes], manner: LayerFormat, bounds: LayerBounds) -> Unpacked:
    """Unpack an uncompressed archive into the root directory, which is empty.

    Raises ImageError naming the member for a name with `..`, a hard link to anything but a file of this layer, a path
    through a file, whatever the disk refuses, and an archive that is broken or larger than `bounds`.
    """
    target = _Layer(manner, bounds)
    try:
        with tarfile.open(fileobj=stream, mode="r|", encoding="utf-8", errors="surrogateescape") as tar:
            while (member := tar.next()) is not None:
                tar.members.clear()  # type: ignore[attr-defined] # it would remember them all
                target.add(tar, member)
    except _UNREADABLE as error:
        raise ImageError(f"the archive is not readable as a tar: {error}") from error
    return target.finish()


class _Layer:
    """The root being filled."""

    def __init__(self, manner: LayerFormat, bounds: LayerBounds) -> None:
        self._manner = manner
        self._bounds = bounds
        self._size = self._entries = self._devices = self._squashed = 0
        self._hides_below = False
        self._removed: set[str] = set()
        self._folder_times: dict[str, int] = {}
        self._parents: dict[str, str] = {}

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Make one member. Raises ImageError, always naming it."""
        try:
            self._count(member)
            parts = safe_parts(member.name)
            parent = self._open_parent(parts)
            name = parts[-1] if parts else ""
            if name == OPAQUE:
                self._hide_below(parent)
            elif name.startswith(WHITEOUT):
                self._white_out(parent, name.removeprefix(WHITEOUT))
            else:
                self._make(tar, member, f"{parent}/{name}")
        except ImageError as error:
            raise ImageError(f"archive member {member.name!r}: {error}") from error
        except _UNREADABLE as error:
            raise ImageError(f"archive member {member.name!r} cannot be unpacked: {error}") from error

    def finish(self) -> Unpacked:
        """Give the directories their times, which only now nothing changes any more."""
        for path, moment in self._folder_times.items():
            with suppress(FileNotFoundError, NotADirectoryError):  # replaced later on
                os.utime(path, ns=(moment, moment), follow_symlinks=False)
        return Unpacked(self._size, self._entries, self._devices, self._squashed, self._hides_below)

    def _count(self, member: tarfile.TarInfo) -> None:
        self._entries += 1
        if member.size < 0:  # it would also lead the tarfile module backwards, for ever
            raise ImageError("its size is negative")
        self._size += member.size if member.isreg() else 0
        if self._size > self._bounds.max_bytes or self._entries > self._bounds.max_entries:
            raise ImageError(
                f"the layer has more than {self._bounds.max_bytes} bytes or {self._bounds.max_entries} entries; "
                "nothing of that size is an image"
            )

    def _open_parent(self, parts: tuple[str, ...]) -> str:
        """Where a member goes: its directory is made if needed; links in the way lead where they lead in the image."""
        wanted = "/".join(("", *parts[:-1]))
        if wanted not in self._parents:
            self._parents[wanted] = self._make_parents(os.path.realpath(wanted or "/").rstrip("/"))
        return self._parents[wanted]

    def _make_parents(self, path: str) -> str:
        current = ""
        for part in path.split("/")[1:]:
            current = f"{current}/{part}"
            self._reveal(current)
            with suppress(FileExistsError):
                _new_folder(current)
            if not stat.S_ISDIR(os.lstat(current).st_mode):
                raise ImageError(f"{current!r} is in the way: expected a directory, found something else")
        return path

    def _reveal(self, path: str) -> None:
        """Something of this layer takes the place of what it removed: a directory there hides all that was below."""
        if path in self._removed:
            self._removed.discard(path)
            os.unlink(path)
            _new_folder(path)
            self._set_opaque(path)

    def _hide_below(self, folder: str) -> None:
        if folder:
            self._set_opaque(folder)
        else:
            self._hides_below = True  # overlayfs has no such mark for a whole layer

    def _set_opaque(self, folder: str) -> None:
        os.setxattr(folder, f"{self._manner.xattrs}.overlay.opaque", b"y", follow_symlinks=False)

    def _white_out(self, parent: str, name: str) -> None:
        """Remove what lower layers have there; what this layer has there stays."""
        if name in ("", ".", ".."):
            raise ImageError("it removes nothing that has a name")
        if name.startswith(WHITEOUT):
            return  # a note of another file system's to itself
        path = f"{parent}/{name}"
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
            self._removed.add(path)
            return
        if stat.S_ISDIR(status.st_mode):
            self._set_opaque(path)

    def _make(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        if member.isdir():
            self._make_folder(path)
        elif member.ischr() or member.isblk():
            self._devices += 1
            return
        elif member.islnk():
            self._make_hard_link(member, path)
            return
        else:
            self._clear(path)
            if member.issym():
                os.symlink(member.linkname, path)
                self._parents.clear()
            elif member.isfifo():
                os.mkfifo(path)
            elif member.isreg():
                _write_file(tar, member, path)
            else:
                raise ImageError(f"its type {member.type!r} is unknown")
        self._dress(member, path)

    def _make_folder(self, path: str) -> None:
        self._reveal(path)
        try:
            if stat.S_ISDIR(os.lstat(path).st_mode):
                return
        except FileNotFoundError:
            pass
        else:
            self._clear(path)
        _new_folder(path)

    def _make_hard_link(self, member: tarfile.TarInfo, path: str) -> None:
        source = "/".join(("", *safe_parts(member.linkname)))
        try:
            status = os.lstat(source)
        except OSError:
            status = None
        if status is None or not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            raise ImageError(f"hard link to {member.linkname!r}, which is not an earlier file of the layer")
        if os.path.lexists(path) and os.path.samestat(status, os.lstat(path)):
            return
        self._clear(path)
        os.link(source, path, follow_symlinks=False)
        self._parents.clear()  # it may be one to a link

    def _clear(self, path: str) -> None:
        """Make room for a new entry."""
        if not path.strip("/"):
            raise ImageError("the root is a directory")
        self._removed.discard(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            shutil.rmtree(path)
        self._parents.clear()

    def _dress(self, member: tarfile.TarInfo, path: str) -> None:
        """Owner, mode, attributes and times, in the order in which the kernel leaves them alone."""
        path = path or "/"
        owned = self._own(member, path)
        moment = int(member.mtime * 10**9)
        if member.issym():
            os.utime(path, ns=(moment, moment), follow_symlinks=False)
            return
        os.chmod(path, member.mode & (0o7777 if owned else 0o1777))
        self._set_attributes(member, path)
        if member.isdir():
            self._folder_times[path] = moment
        else:
            os.utime(path, ns=(moment, moment))

    def _own(self, member: tarfile.TarInfo, path: str) -> bool:
        """Hand an entry to its owner; False when there is no such owner here, so that it must not be setuid."""
        if not (0 <= member.uid <= _MAX_ID and 0 <= member.gid <= _MAX_ID):
            raise ImageError(f"its owner {member.uid}:{member.gid} is not possible")
        ours = (member.uid, member.gid) == (0, 0)
        if self._manner.owners == "kept":
            try:
                os.lchown(path, member.uid, member.gid)
            except OSError as error:
                if error.errno != errno.EINVAL:  # beyond the ids that this user was given
                    raise
            else:
                return True
        self._squashed += not ours
        return ours

    def _set_attributes(self, member: tarfile.TarInfo, path: str) -> None:
        for key, value in member.pax_headers.items():
            name = key.removeprefix(XATTR)
            if name == key or not is_portable(name) or member.isfifo():
                continue
            with suppress(OSError):  # not every file system has them
                os.setxattr(path, name, value.encode("utf-8", "surrogateescape"), follow_symlinks=False)


def is_portable(attribute: str) -> bool:
    """Whether an extended attribute belongs to an image.

    No others: those of overlayfs would make a layer look into others, labels are the host's business.
    """
    return attribute == "security.capability" or (
        attribute.startswith("user.") and not attribute.startswith("user.overlay.")
    )


def safe_parts(name: str) -> tuple[str, ...]:
    """A name below the root, without what does not matter. Raises ImageError for one with `..`."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise ImageError("names with .. are refused")
    return parts


def _new_folder(path: str) -> None:
    os.mkdir(path)
    os.chmod(path, _USUAL_MODES.get(path, 0o755))


def _write_file(tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
    content = tar.extractfile(member)
    if content is None:
        raise ImageError("has no content")
    with os.fdopen(os.open(path, _NEW_FILE, 0o600), "wb") as file:
        done = 0
        while chunk := content.read(_CHUNK):
            if member.issparse() and not chunk.strip(b"\0"):
                file.seek(len(chunk), os.SEEK_CUR)
            else:
                file.write(chunk)
            done += len(chunk)
        if done != member.size:
            raise ImageError(f"the archive ends after {done} of {member.size} bytes")
        file.truncate(done)
