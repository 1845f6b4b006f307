"""From a layer's archive to a directory that overlayfs takes: what the archive removes becomes whiteouts.

Runs in a child that has made the directory its root (`worker.py`): whatever names and links an archive has, the kernel
leads them nowhere else. Nothing here may import anything when called.
"""

import bz2
import errno
import gzip
import io
import lzma
import os
import stat
import tarfile
import zlib
from contextlib import suppress
from functools import partial
from typing import IO, Literal, NamedTuple, cast

import zstandard

from seatrial.errors import ImageError
from seatrial.sandbox.archives import UNREADABLE, clear, new_file, read_tar, safe_parts, stamp, times_of, walk_members
from seatrial.sandbox.layers import OPAQUE, WHITEOUT, is_portable

Owners = Literal["kept", "squashed"]
"""Whether files belong to whom the archive says, or all to one user because this user has no other ids."""

_MAX_ID = 2**32 - 2
# A layer should say how its directories are; where it leaves out one of these, the usual mode would break programs.
_USUAL_MODES = {"/tmp": 0o1777, "/var/tmp": 0o1777, "/root": 0o700}  # noqa: S108 - paths in the image


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
        with read_tar(stream, "r|") as tar:
            walk_members(tar, partial(target.add, tar), ImageError)
    except UNREADABLE as error:
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
        self._folder_times: dict[str, tuple[int, int]] = {}
        self._parents: dict[str, str] = {}

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._count(member)
        parts = safe_parts(member.name, absolute="below")
        parent = self._open_parent(parts)
        name = parts[-1] if parts else ""
        if name == OPAQUE:
            self._hide_below(parent)
        elif name.startswith(WHITEOUT):
            self._white_out(parent, name.removeprefix(WHITEOUT))
        else:
            self._make(tar, member, f"{parent}/{name}")

    def finish(self) -> Unpacked:
        """Give the directories their times, which only now nothing changes any more."""
        for path, times in self._folder_times.items():
            with suppress(FileNotFoundError, NotADirectoryError):  # replaced later on
                os.utime(path, ns=times, follow_symlinks=False)
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
        if member.ischr() or member.isblk():
            self._devices += 1
        elif member.isdir():
            self._make_folder(path)
            self._dress(member, path or "/")
            self._folder_times[path or "/"] = times_of(member)
        elif member.islnk():
            self._make_hard_link(member, path)
        elif member.issym():
            self._clear(path)
            os.symlink(member.linkname, path)
            self._parents.clear()
            self._own(member, path)
            os.utime(path, ns=times_of(member), follow_symlinks=False)
        elif member.isfifo():
            self._clear(path)
            os.mkfifo(path)
            self._dress(member, path)
        elif member.isreg():
            self._clear(path)
            with new_file(tar, member, path) as descriptor:
                self._dress(member, descriptor)
        else:
            raise ImageError(f"its type {member.type!r} is unknown")

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
        source = "/".join(("", *safe_parts(member.linkname, absolute="below")))
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
        if clear(path, folders="with all") != "nothing":
            self._parents.clear()

    def _dress(self, member: tarfile.TarInfo, target: int | str) -> None:
        owned = self._own(member, target)
        attributes = (lambda _: False) if member.isfifo() else is_portable
        stamp(member, target, attributes, mode=member.mode & (0o7777 if owned else 0o1777))

    def _own(self, member: tarfile.TarInfo, target: int | str) -> bool:
        """Hand an entry to its owner; False when there is no such owner here, so that it must not be setuid."""
        if not (0 <= member.uid <= _MAX_ID and 0 <= member.gid <= _MAX_ID):
            raise ImageError(f"its owner {member.uid}:{member.gid} is not possible")
        ours = (member.uid, member.gid) == (0, 0)
        if self._manner.owners == "kept":
            try:
                os.chown(target, member.uid, member.gid, follow_symlinks=isinstance(target, int))
            except OSError as error:
                if error.errno != errno.EINVAL:  # beyond the ids that this user was given
                    raise
            else:
                return True
        self._squashed += not ours
        return ours


def _new_folder(path: str) -> None:
    os.mkdir(path)
    os.chmod(path, _USUAL_MODES.get(path, 0o755))


# Compressed archives, told by their first bytes, since names and media types lie.

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
