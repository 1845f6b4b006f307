"""From a directory that overlayfs takes back to a layer's archive, for another store; `layers.py` is the other way.

The archive is not the one that the layer once came in, so it has a digest of its own. Runs in a child that has made the
directory its root (`worker.py`). Nothing here may import anything when called.
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

from seatrial.errors import ImageError
from seatrial.images.layers import OPAQUE, WHITEOUT, XATTR, is_portable
from seatrial.sandbox.overlay import is_opaque, is_whiteout

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}


def pack_layer(archive: IO[bytes], *, hides_below: bool) -> None:
    """Pack the root directory. Sockets and devices are left out, as unpacking does.

    Raises ImageError for a name that means something else in archives, and OSError.
    """
    with tarfile.open(
        fileobj=archive, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        packing = _Packing(tar)
        packing.add("/", os.lstat("/"))
        if hides_below:
            packing.mark(OPAQUE)
        for path, status in _entries():
            packing.add(path, status)


def _entries() -> Iterator[tuple[str, os.stat_result]]:
    """Everything below the root, directories before what is in them. They may nest deeper than calls can."""
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in sorted(os.listdir(folder or "/")):
            path = f"{folder}/{name}"
            status = os.lstat(path)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                folders.append(path)


class _Packing:
    """An archive being written."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._linked: dict[tuple[int, int], str] = {}

    def add(self, path: str, status: os.stat_result) -> None:
        """Pack one entry."""
        folder, _, name = path.rpartition("/")
        if name.startswith(WHITEOUT):
            raise ImageError(f"{path!r} cannot be packed: in archives, such a name says that something was removed")
        if is_whiteout(status):  # before links: the kernel makes one of them and links the others to it
            self.mark(f"{folder}/{WHITEOUT}{name}")
            return
        kind = _KINDS.get(stat.S_IFMT(status.st_mode))
        if kind is None:
            return
        member = _describe(path, kind, status)
        if kind != tarfile.DIRTYPE and status.st_nlink > 1:
            first = self._linked.setdefault((status.st_dev, status.st_ino), member.name)
            if first != member.name:
                member.type, member.linkname, member.size = tarfile.LNKTYPE, first, 0
        self._write(member, path)
        if kind == tarfile.DIRTYPE and is_opaque(path):
            self.mark(f"{path}/{OPAQUE}")

    def mark(self, path: str) -> None:
        """Pack an empty file whose name says it all."""
        self._tar.addfile(tarfile.TarInfo(path.lstrip("/")))
        self._forget()

    def _write(self, member: tarfile.TarInfo, path: str) -> None:
        if member.isreg():
            with os.fdopen(os.open(path, _FILE), "rb") as content:
                self._tar.addfile(member, content)
        else:
            self._tar.addfile(member)
        self._forget()

    def _forget(self) -> None:
        self._tar.members.clear()  # type: ignore[attr-defined] # it would remember them all


def _describe(path: str, kind: bytes, status: os.stat_result) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/") or ".")
    member.type, member.mode = kind, stat.S_IMODE(status.st_mode)
    member.uid, member.gid = status.st_uid, status.st_gid
    seconds, rest = divmod(status.st_mtime_ns, 10**9)
    member.mtime = seconds + rest / 10**9 if rest else seconds
    if kind == tarfile.REGTYPE:
        member.size = status.st_size
    elif kind == tarfile.SYMTYPE:
        member.linkname = os.readlink(path)
        return member
    member.pax_headers = _attributes(path)
    return member


def _attributes(path: str) -> dict[str, str]:
    found = {}
    with suppress(OSError):  # not every file system has them
        for name in filter(is_portable, os.listxattr(path, follow_symlinks=False)):
            value = os.getxattr(path, name, follow_symlinks=False)
            found[f"{XATTR}{name}"] = value.decode("utf-8", "surrogateescape")
    return found
