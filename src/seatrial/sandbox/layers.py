"""Layers of images and of changes: directories as overlayfs has them, walks through what was written, and archives.

In directories, devices and attributes mark what is gone. Archives have the same marks, or names that begin with `.wh.`.
No link is ever followed here: a layer is untrusted, and its links lead to places of this machine. Nothing here may
import anything when called: children of the embedded backend call it in other roots.
"""

import os
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, Literal

from seatrial.errors import SandboxError, TooLargeError
from seatrial.untrusted.files import FOLDER

OPAQUE_MARKS = ("trusted.overlay.opaque", "user.overlay.opaque")
XATTR = "SCHILY.xattr."
WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
_OWNER = "SEATRIAL.owner"
_BYTES_PER_ENTRY, _ALWAYS_ENTRIES = 6144, 1024  # to pack an entry takes 0.1 ms, as long as so much content
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


# As directories


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer stands for something that was removed."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(folder: str | os.PathLike[str]) -> bool:
    """Whether a directory of a layer hides all that layers below have in it."""
    for mark in OPAQUE_MARKS:
        try:
            if os.getxattr(folder, mark, follow_symlinks=False) == b"y":
                return True
        except OSError:
            continue
    return False


def find_in_layers(layers: Sequence[str], path: str) -> str | None:
    """Where a path of an image lies on this machine: `layers` has the topmost first, and the first to know it decides.

    None for what is not in the image, and for what can only be reached through a link.
    """
    parts = path.strip("/").split("/")
    for layer in layers:
        found, settled = _look_into(layer, parts)
        if settled or (layer is not layers[-1] and _hides_below(layer, parts[:-1])):
            return found
    return None


class LayerFinder:
    """Finds many paths of an image. What lies below a folder that no layer has is not looked for one by one."""

    def __init__(self, layers: Sequence[str]) -> None:
        self._layers = layers
        self._is_known: dict[str, bool] = {}

    def find(self, path: str) -> str | None:
        """As `find_in_layers` does; for as long as nobody changes the layers."""
        return find_in_layers(self._layers, path) if self._is_there(path.rpartition("/")[0]) else None

    def _is_there(self, folder: str) -> bool:
        """Whether anything may lie in a folder; a file or a link in its place settles that for each path by itself."""
        if not folder:
            return True
        if folder not in self._is_known:
            self._is_known[folder] = self.find(folder) is not None
        return self._is_known[folder]


def _look_into(layer: str, parts: Sequence[str]) -> tuple[str | None, bool]:
    """Where a layer has something, and whether what it has there, or on the way, leaves layers below no say in it."""
    current = layer
    for index, part in enumerate(parts):
        current = f"{current}/{part}"
        try:
            status = os.lstat(current)
        except OSError:
            return None, False
        if is_whiteout(status):
            return None, True
        if not stat.S_ISDIR(status.st_mode) and index < len(parts) - 1:
            return None, True
    return current, True


def _hides_below(layer: str, parts: Sequence[str]) -> bool:
    """Whether a folder of a layer, or one that it is in, hides what layers below have there; not if it has none."""
    return any(is_opaque("/".join([layer, *parts[:depth]])) for depth in range(1, len(parts) + 1))


def names_in_layers(layers: Sequence[str], folder: str) -> frozenset[str]:
    """The names of what an image has in a folder that no link leads to; `layers` has the topmost first."""
    parts = folder.strip("/").split("/")
    seen: dict[str, bool] = {}
    for layer in layers:
        place, settled = _look_into(layer, parts)
        if place and stat.S_ISDIR(os.lstat(place).st_mode):
            for name, is_there in _entries(place):
                seen.setdefault(name, is_there)
            settled = False
        if settled or (layer is not layers[-1] and _hides_below(layer, parts)):
            break
    return frozenset(name for name, is_there in seen.items() if is_there)


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """The entries of a folder of a layer, and whether each is there or a mark of what is not."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_usual = entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            yield entry.name, is_usual or not is_whiteout(entry.stat(follow_symlinks=False))


# The writable directory of an overlay: no link followed, no depth without end.

MAX_DEPTH = 100
SYSTEM = frozenset({"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"})
_MANY_NAMES_BYTES = 2**16


class TooMuch(Exception):
    """There is more to look at than was allowed."""


class Allowance:
    """How many entries somebody who has little time may look at; without a number, all."""

    def __init__(self, entries: int | None = None) -> None:
        self._left = entries

    def use(self, entries: int = 1) -> None:
        """Look at some more. Raises TooMuch."""
        if self._left is not None:
            self._left -= entries
            if self._left < 0:
                raise TooMuch

    def read(self, folder: int) -> list[str]:
        """The names in a directory. Raises TooMuch for one so large that listing it takes long."""
        if self._left is not None and os.fstat(folder).st_size > _MANY_NAMES_BYTES:
            raise TooMuch
        return os.listdir(folder)


EVERYTHING = Allowance()


def walk_folder(top: int, allowance: Allowance = EVERYTHING) -> Iterator[tuple[str, os.stat_result, bool]]:
    """Every entry of a writable directory as (relative path, status, is an opaque directory), parents first.

    What lies deeper than anybody builds by hand is left out; the directory it begins in is not.
    """
    yield from _walk(top, "", 0, allowance)


def _walk(folder: int, inside: str, depth: int, allowance: Allowance) -> Iterator[tuple[str, os.stat_result, bool]]:
    names = allowance.read(folder)
    allowance.use(len(names))
    for entry in names if depth else _telling_first(folder, names):
        with suppress(FileNotFoundError, NotADirectoryError):  # gone or replaced since the directory was read
            status = os.lstat(entry, dir_fd=folder)
            path = inside + entry
            is_folder = stat.S_ISDIR(status.st_mode)
            yield path, status, is_folder and is_opaque(f"/proc/self/fd/{folder}/{entry}")
            if is_folder and depth < MAX_DEPTH:
                below = os.open(entry, FOLDER, dir_fd=folder)
                try:
                    yield from _walk(below, f"{path}/", depth + 1, allowance)
                finally:
                    os.close(below)


def _telling_first(root: int, found: list[str]) -> list[str]:
    """The entries of a root, system folders and files before the others.

    Lists of changes are cut off somewhere: whoever fills a folder of their own must not push those out.
    """
    folders = {entry for entry in found if entry not in SYSTEM and _is_folder(entry, root)}
    return sorted(found, key=lambda entry: (entry not in SYSTEM, entry in folders))


def _is_folder(entry: str, parent: int) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(entry, dir_fd=parent).st_mode)
    except FileNotFoundError:
        return False


def shown(path: str) -> str:
    """A path as text; one that is not UTF-8 with its odd bytes written out."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# As archives


def gone_mark(name: str) -> tarfile.TarInfo:
    """A member that stands for something which is not there any more, as overlayfs marks it."""
    member = tarfile.TarInfo(name)
    member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 0, 0
    return member


def is_gone_mark(member: tarfile.TarInfo) -> bool:
    return member.ischr() and (member.devmajor, member.devminor) == (0, 0)


def is_made_anew(member: tarfile.TarInfo) -> bool:
    """Whether a member is a directory that was removed and then made anew."""
    return member.isdir() and any(member.pax_headers.get(f"{XATTR}{name}") == "y" for name in OPAQUE_MARKS)


def of_unknown_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A directory of which nobody knows whom it belongs to: where it is laid out, its owner stays."""
    member.pax_headers = {**member.pax_headers, _OWNER: "unknown"}
    return member


def knows_owner(member: tarfile.TarInfo) -> bool:
    return _OWNER not in member.pax_headers


def is_users(attribute: str) -> bool:
    """Whether anybody may give a file this extended attribute. Those of overlays are about one mount."""
    return attribute.startswith("user.") and ".overlay." not in attribute


def is_portable(attribute: str) -> bool:
    """Whether an extended attribute belongs to an image.

    No others: those of overlayfs would make a layer look into others, labels are the host's business.
    """
    return attribute == "security.capability" or (
        attribute.startswith("user.") and not attribute.startswith("user.overlay.")
    )


def refuse_large(contents: int, entries: int, limit: int) -> None:
    """Raise TooLargeError for a layer of more bytes than a limit, or of more entries than go with that."""
    size = contents + tarfile.BLOCKSIZE * entries
    if size > limit:
        raise TooLargeError(f"what differs from the image has {size:,} bytes, and the limit is {limit:,}")
    most = max(_ALWAYS_ENTRIES, limit // _BYTES_PER_ENTRY)
    if entries > most:
        raise TooLargeError(f"{entries:,} files and directories differ from the image, and the limit is {most:,}")


def attributes_of(member: tarfile.TarInfo, chosen: Callable[[str], bool]) -> Mapping[str, bytes]:
    """The extended attributes that a file is to have, as far as they are chosen."""
    return {
        key.removeprefix(XATTR): value.encode("utf-8", "surrogateescape")
        for key, value in member.pax_headers.items()
        if key.startswith(XATTR) and chosen(key.removeprefix(XATTR))
    }


class LayerWriter:
    """The directory of a layer on its way into an archive; links to one file stay that.

    With `marks` that are `names`, the archive is as images have their layers: what is gone is an empty file whose name
    begins with `.wh.`. With `devices`, it is as `unpack` takes it: without pipes, and with times in whole seconds, as
    parts of one take a header of their own for every file.
    """

    def __init__(
        self,
        tar: tarfile.TarFile,
        *,
        marks: Literal["names", "devices"] = "names",
        attributes: Callable[[str], bool] = is_portable,
        owner: Callable[[os.stat_result], tuple[int, int]] = lambda status: (status.st_uid, status.st_gid),
    ) -> None:
        self._tar = tar
        self._by_name = marks == "names"
        self._attributes = attributes
        self._owner = owner
        self._linked: dict[tuple[int, int], str] = {}

    def add_below(self, top: str) -> None:
        """Pack all that is in a directory, folders before what is in them. They may nest deeper than calls can."""
        folders = [""]
        while folders:
            inside = folders.pop()
            for name in sorted(os.listdir(f"{top}/{inside}")):
                path = f"{inside}{name}"
                place = f"{top}/{path}"
                status = os.lstat(place)
                is_folder = stat.S_ISDIR(status.st_mode)
                self.add(path, place, status, opaque=is_folder and is_opaque(place))
                if is_folder:
                    folders.append(f"{path}/")

    def add(self, name: str, place: str, status: os.stat_result, *, opaque: bool = False) -> None:
        """Pack one entry, which is at a `place`. Sockets and devices are left out: they lead to nobody any more.

        Raises SandboxError for a name that means something else in such archives, and OSError.
        """
        folder, _, last = name.rpartition("/")
        if self._by_name and last.startswith(WHITEOUT):
            raise SandboxError(f"'/{name}' cannot be packed: in archives, such a name says that something was removed")
        if is_whiteout(status):  # before links: the kernel makes one of them and links the others to it
            self._write(tarfile.TarInfo(f"{folder}/{WHITEOUT}{last}".lstrip("/")) if self._by_name else gone_mark(name))
            return
        member = self._describe(name, status)
        if stat.S_ISREG(status.st_mode):
            self._add_file(member, place, status)
        elif stat.S_ISLNK(status.st_mode):
            member.type, member.linkname = tarfile.SYMTYPE, os.readlink(place)
            self._write(member)
        elif stat.S_ISDIR(status.st_mode):
            member.type, member.pax_headers = tarfile.DIRTYPE, self._found_attributes(place)
            if opaque and not self._by_name:
                member.pax_headers = {**member.pax_headers, f"{XATTR}{OPAQUE_MARKS[0]}": "y"}
            self._write(member)
            if opaque and self._by_name:
                self.hide_below(name)
        elif stat.S_ISFIFO(status.st_mode) and self._by_name:
            member.type, member.pax_headers = tarfile.FIFOTYPE, self._found_attributes(place)
            self._write(member)

    def hide_below(self, folder: str = "") -> None:
        """Mark by name that layers below have no say in a directory; without one, in anything."""
        self._write(tarfile.TarInfo(f"{folder}/{OPAQUE}".lstrip("/")))

    def _add_file(self, member: tarfile.TarInfo, place: str, status: os.stat_result) -> None:
        first = self._linked.setdefault((status.st_dev, status.st_ino), member.name) if status.st_nlink > 1 else None
        if first not in (None, member.name):
            member.type, member.linkname = tarfile.LNKTYPE, first or ""
            self._write(member)
            return
        member.size, member.pax_headers = status.st_size, self._found_attributes(place)
        with os.fdopen(os.open(place, _FILE), "rb") as file:
            self._write(member, file)

    def _write(self, member: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        self._tar.addfile(member, content)
        self._tar.members.clear()  # type: ignore[attr-defined] # it would remember them all

    def _describe(self, name: str, status: os.stat_result) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.mode = stat.S_IMODE(status.st_mode)
        member.uid, member.gid = self._owner(status)
        seconds, rest = divmod(status.st_mtime_ns, 10**9)
        member.mtime = seconds + rest / 10**9 if rest and self._by_name else seconds
        return member

    def _found_attributes(self, place: str) -> dict[str, str]:
        found = {}
        with suppress(OSError):  # a file system without any
            for name in filter(self._attributes, os.listxattr(place, follow_symlinks=False)):
                value = os.getxattr(place, name, follow_symlinks=False)
                found[f"{XATTR}{name}"] = value.decode("utf-8", "surrogateescape")
        return found
