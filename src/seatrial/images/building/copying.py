"""COPY and ADD: which files go where, as an archive that is a layer of its own.

No sandbox is needed: the destination is looked up in the layers below, and every directory on the way is in the archive
as it is there, because the topmost layer decides what a directory is like.
"""

import os
import stat
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import IO, BinaryIO, Literal

from seatrial.errors import ImageError, SandboxError
from seatrial.images.building.trees import LayerView
from seatrial.images.copying import OwnersHere
from seatrial.images.layers import BROKEN, open_compressed
from seatrial.sandbox.archives import UNREADABLE, read_tar, safe_parts, write_tar
from seatrial.tasks.build_context import CopySource, FoundFile, IgnoreRules, resolve, walk
from seatrial.tasks.dockerfile import WordError

_NEW_FOLDER, _NEW_FILE = 0o755, 0o644
_NOT_AN_ARCHIVE = (*UNREADABLE, *BROKEN, ImageError, SandboxError)
Owner = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CopyPlan:
    """What to copy where. A destination with a `/` at its end is a directory.

    Without an `owner`, files are root's; with `keep`, they stay whose they are.
    """

    destination: str
    sources: Sequence[CopySource] = ()
    documents: Sequence[tuple[str, bytes]] = ()
    owner: Owner | None = None
    owners: Literal["root", "keep"] = "root"
    mode: int | None = None
    archives: Literal["copy", "unpack"] = "copy"
    exclude: IgnoreRules = field(default_factory=IgnoreRules)


def write_copy_layer(archive: BinaryIO, view: LayerView, plan: CopyPlan) -> None:
    """Write the layer that carries out a plan on top of what `view` shows.

    Raises WordError when files and directories are in each other's way, OSError for what cannot be read.
    """
    with write_tar(archive, shape=tarfile.GNU_FORMAT) as tar:
        copier = _Copier(_LayerArchive(tar, view), plan)
        for source in plan.sources:
            copier.add(source)
        for name, content in plan.documents:
            copier.add_document(name, content)


def write_folder_layer(archive: BinaryIO, view: LayerView, path: str, owner: Owner) -> None:
    """Write the layer that makes a directory with all above it. Raises WordError when something is in the way."""
    with write_tar(archive, shape=tarfile.GNU_FORMAT) as tar:
        _LayerArchive(tar, view).make_folder(resolve(view, path), owner)


class _LayerArchive:
    """The archive being written, with the directories that are in it already."""

    def __init__(self, tar: tarfile.TarFile, view: LayerView) -> None:
        self._tar = tar
        self._view = view
        self._owners = OwnersHere.here()
        self._folders: set[str] = {"/"}

    def look(self, path: str) -> FoundFile | None:
        """What the layers below have at a path."""
        return self._view.look(path)

    def resolve(self, path: str) -> str:
        return resolve(self._view, path)

    def make_folder(self, path: str, owner: Owner) -> None:
        """Have a directory: as it is below, or else a new one."""
        if path in self._folders:
            return
        self.make_folder(path.rpartition("/")[0] or "/", owner)
        self._folders.add(path)
        found = self._view.look(path)
        if found is None:
            self._tar.addfile(_describe_new(path, _NEW_FOLDER, owner, tarfile.DIRTYPE))
            return
        if not found.is_folder:
            raise WordError(f"{path} is in the way: expected a directory in the image, found something else")
        self._tar.addfile(_describe(path, found, self.owner_of(found)))

    def owner_of(self, found: FoundFile) -> Owner:
        return self._owners.inside(found.status)

    def set_folder(self, member: tarfile.TarInfo) -> None:
        """Have a directory just so, whatever it is like below."""
        path = f"/{member.name}"
        below = self._view.look(path)
        if below and not below.is_folder:
            raise WordError(f"{path} is in the way: it is no directory in the image, and is one in what is copied")
        self._folders.add(path)
        self._tar.addfile(member)

    def add_file(self, member: tarfile.TarInfo, content: IO[bytes] | None = None) -> None:
        """Add anything but a directory."""
        below = self._view.look(f"/{member.name}")
        if below and below.is_folder:
            raise WordError(f"/{member.name} is in the way: it is a directory in the image, not so in what is copied")
        self._tar.addfile(member, content)


class _Copier:
    """Carries out one plan."""

    def __init__(self, layer: _LayerArchive, plan: CopyPlan) -> None:
        self._layer = layer
        self._plan = plan
        self._target = layer.resolve(plan.destination)
        self._is_folder = plan.destination.endswith("/")
        self._links: dict[tuple[int, int], str] = {}

    def add(self, source: CopySource) -> None:
        """Copy one file, or what is in one directory."""
        self._links.clear()
        found = source.tree.look(source.path)
        if found is None:
            raise WordError(f"{source.path} has vanished meanwhile")
        if found.is_folder:
            self._add_folder(source)
        elif not (self._plan.archives == "unpack" and found.is_file and self._unpack(found)):
            self._add_found(self._place(source.name), found)

    def add_document(self, name: str, content: bytes) -> None:
        """Write a file that is in the Dockerfile itself."""
        mode = _NEW_FILE if self._plan.mode is None else self._plan.mode
        member = _describe_new(self._place(name), mode, self._new_owner, tarfile.REGTYPE)
        member.size = len(content)
        self._layer.add_file(member, BytesIO(content))

    @property
    def _new_owner(self) -> Owner:
        return self._plan.owner or (0, 0)

    def _place(self, name: str) -> str:
        """Where a file goes that has this name; the directory is there then."""
        below = self._layer.look(self._target)
        into = self._is_folder or (below is not None and below.is_folder)
        place = f"{self._target.rstrip('/')}/{name}" if into else self._target
        self._layer.make_folder(place.rpartition("/")[0] or "/", self._new_owner)
        return place

    def _add_folder(self, source: CopySource) -> None:
        self._layer.make_folder(self._target, self._new_owner)
        for relative, found in walk(source.tree, source.path):
            if not self._plan.exclude.ignores(relative):
                place = f"{self._target.rstrip('/')}/{relative}"
                self._layer.make_folder(place.rpartition("/")[0] or "/", self._new_owner)
                self._add_found(place, found)

    def _add_found(self, place: str, found: FoundFile) -> None:
        status = found.status
        member = _describe(place, found, self._owner_of(found))
        if self._plan.mode is not None and not found.is_link:
            member.mode = self._plan.mode
        if found.is_folder:
            self._layer.set_folder(member)
        elif found.is_link or stat.S_ISFIFO(status.st_mode):
            self._layer.add_file(member)
        elif found.is_file:
            self._add_regular(member, found)

    def _add_regular(self, member: tarfile.TarInfo, found: FoundFile) -> None:
        same = (found.status.st_dev, found.status.st_ino)
        if found.status.st_nlink > 1 and same in self._links:
            member.type, member.linkname = tarfile.LNKTYPE, self._links[same]
            self._layer.add_file(member)
            return
        self._links[same] = member.name
        with found.place.open("rb") as file:
            member.size = os.fstat(file.fileno()).st_size
            self._layer.add_file(member, file)

    def _owner_of(self, found: FoundFile) -> Owner:
        if self._plan.owner is None and self._plan.owners == "keep":
            return self._layer.owner_of(found)
        return self._new_owner

    def _unpack(self, found: FoundFile) -> bool:
        """Unpack an archive, whatever it is called; False when it is none."""
        with found.place.open("rb") as file:
            try:
                tar = read_tar(open_compressed(file), "r|")
                member = tar.next()
            except _NOT_AN_ARCHIVE:
                return False
            self._layer.make_folder(self._target, self._new_owner)
            try:
                while member is not None:
                    self._add_member(tar, member)
                    member = tar.next()
            except _NOT_AN_ARCHIVE as error:
                raise WordError(f"{found.place.name} cannot be unpacked: {error}") from error
        return True

    def _add_member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = safe_parts(member.name, absolute="below")
        if not parts:
            return
        folder = self._layer.resolve("/".join((self._target, *parts[:-1])))
        self._layer.make_folder(folder, (0, 0))
        copy = tarfile.TarInfo(f"{folder}/{parts[-1]}".lstrip("/"))
        copy.mode, copy.uid, copy.gid, copy.mtime = member.mode, member.uid, member.gid, member.mtime
        copy.type = tarfile.REGTYPE if member.isreg() else member.type
        copy.linkname = member.linkname
        if member.islnk():
            source = safe_parts(member.linkname, absolute="below")
            copy.linkname = self._layer.resolve("/".join((self._target, *source))).lstrip("/")
        if member.isdir():
            self._layer.set_folder(copy)
            return
        copy.size = member.size if member.isreg() else 0
        self._layer.add_file(copy, tar.extractfile(member) if member.isreg() else None)


def _describe(path: str, found: FoundFile, owner: Owner) -> tarfile.TarInfo:
    status = found.status
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode, member.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    member.uid, member.gid = owner
    if found.is_folder:
        member.type = tarfile.DIRTYPE
    elif found.is_link:
        member.type, member.linkname = tarfile.SYMTYPE, str(found.place.readlink())
    elif stat.S_ISFIFO(status.st_mode):
        member.type = tarfile.FIFOTYPE
    return member


def _describe_new(path: str, mode: int, owner: Owner, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode, member.type, member.mtime = mode, kind, int(time.time())
    member.uid, member.gid = owner
    return member


# Owners: `--chown` and USER as numbers.

_MAX_ID = 2**32 - 2


def find_owner(view: LayerView, text: str) -> tuple[int, int]:
    """User and group of `user`, `user:group` or `:group`, names or numbers. Raises WordError.

    A name stands for its user's own group as well, a number for the group of the same number.
    """
    user, colon, group = text.partition(":")
    uid, gid = _find_user(view, user) if user else (0, 0)
    if not colon or not group:
        return uid, gid
    return uid, _number(group) if group.isdigit() else _find_group(view, group)


def _find_user(view: LayerView, user: str) -> tuple[int, int]:
    if user.isdigit():
        return _number(user), _number(user)
    for row in _rows(view, "/etc/passwd"):
        if row[0] == user and len(row) > 3 and row[2].isdigit() and row[3].isdigit():
            return _number(row[2]), _number(row[3])
    raise WordError(f"there is no user {user!r} in the image's /etc/passwd")


def _find_group(view: LayerView, group: str) -> int:
    for row in _rows(view, "/etc/group"):
        if row[0] == group and len(row) > 2 and row[2].isdigit():
            return _number(row[2])
    raise WordError(f"there is no group {group!r} in the image's /etc/group")


def _rows(view: LayerView, path: str) -> list[list[str]]:
    return [line.split(":") for line in view.read(path).decode("utf-8", "replace").splitlines()]


def _number(text: str) -> int:
    value = int(text) if text.isascii() and len(text) <= 10 else _MAX_ID + 1
    if value > _MAX_ID:
        raise WordError(f"{text} is not a possible number of a user or group")
    return value
