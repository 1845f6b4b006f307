"""Files into and out of a container, through the engine's archives: nothing of the image has to work for it."""

import asyncio
import base64
import json
import posixpath
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.errors import ContentError, SandboxError, TooLargeError
from seatrial.sandbox.archives import (
    UNREADABLE,
    Parts,
    check_kind,
    folder_member,
    link_member,
    read_tar,
    safe_parts,
    walk_members,
    write_tar,
)
from seatrial.sandbox.engine.client import EngineClient, EngineError

# Archives: an engine unpacks whatever it is given and packs whatever is there. What a sandbox must refuse is found out
# before, and what it must not hand out is left out afterwards. Pure work on files, for threads.

_MAX_DEPTH = 200


@dataclass(frozen=True, slots=True)
class Contents:
    """What an archive wants to have: each folder with the first member that needs it, and which it brings itself."""

    folders: Mapping[Parts, str]
    own: Set[Parts]


def examine(archive: BinaryIO) -> Contents:
    """Look through an archive before it is unpacked.

    Raises SandboxError naming the member for whatever `unpack` refuses too: a name that is absolute or has
    `..`, a path through a link or file of the archive itself, a device, pipe or sparse file, a hard link to anything
    but an earlier file.
    """
    kinds: dict[Parts, str] = {}
    folders: dict[Parts, str] = {}
    own: set[Parts] = set()

    def look_at(member: tarfile.TarInfo) -> None:
        parts = safe_parts(member.name)
        check_kind(member, parts)
        _check_links(member, parts, kinds)
        for depth in range(1, len(parts)):
            folders.setdefault(parts[:depth], member.name)
        if member.isdir():
            folders.setdefault(parts, member.name)
            own.add(parts)
        kinds[parts] = "folder" if member.isdir() else "link" if member.issym() else "file"

    try:
        with read_tar(archive) as tar:
            walk_members(tar, look_at)
    except UNREADABLE as error:
        raise SandboxError(f"the archive is not readable as an uncompressed tar: {error}") from error
    return Contents(folders, own)


def _check_links(member: tarfile.TarInfo, parts: Parts, kinds: Mapping[Parts, str]) -> None:
    for depth in range(1, len(parts)):
        if kinds.get(parts[:depth], "folder") != "folder":
            raise SandboxError(f"{parts[depth - 1]!r} is in the way: expected a directory, found a link or a file")
    if member.islnk() and kinds.get(safe_parts(member.linkname)) != "file":
        raise SandboxError(f"hard link to {member.linkname!r}, which is not an earlier file of the archive")


def rewrite(archive: BinaryIO, target: BinaryIO, missing: Parts, there: Set[Parts]) -> None:
    """The archive as it is to be unpacked `missing` folders above where it belongs, which it makes.

    Folders that are `there` are left out of it, so that they keep their mode and owner.
    """
    archive.seek(0)
    try:
        with (
            read_tar(archive) as source,
            write_tar(target) as tar,
        ):
            for depth in range(1, len(missing) + 1):
                tar.addfile(folder_member("/".join(missing[:depth])))
            for member in source:
                _copy(source, tar, member, missing, there)
    except UNREADABLE as error:
        raise SandboxError(f"the archive is not readable as an uncompressed tar: {error}") from error
    target.seek(0)


def _copy(
    source: tarfile.TarFile, tar: tarfile.TarFile, member: tarfile.TarInfo, missing: Parts, there: Set[Parts]
) -> None:
    parts = safe_parts(member.name)
    if not parts or (member.isdir() and parts in there):
        return
    # A copy, because the source finds the targets of hard links by name.
    moved = tarfile.TarInfo("/".join((*missing, *parts)))
    for name in ("type", "mode", "uid", "gid", "uname", "gname", "mtime", "size", "linkname"):
        setattr(moved, name, getattr(member, name))
    if member.islnk():
        moved.linkname = "/".join((*missing, *safe_parts(member.linkname)))
    tar.addfile(moved, source.extractfile(member) if member.isreg() else None)


def fresh_folders(modes: Mapping[str, int]) -> list[tarfile.TarInfo]:
    """Members that leave an empty directory under each name, whatever is there: a file pushes it out first."""
    return [member for name, mode in modes.items() for member in (tarfile.TarInfo(name), folder_member(name, mode))]


def write(target: BinaryIO, members: Iterable[tarfile.TarInfo]) -> None:
    """An archive of members without content, ready to be read."""
    with write_tar(target) as tar:
        for member in members:
            tar.addfile(member)
    target.seek(0)


def select(packed: BinaryIO, target: BinaryIO, path: str, limit: int) -> None:
    """What an engine packed from a path, as `pack` has it.

    A file has its own name, a directory is `.` with what is below; pipes, sockets and devices are left out, and hard
    links become files of their own. Raises TooLargeError when files and headers take more than `limit` bytes.
    """
    left = limit
    top: str | None = None
    with (
        read_tar(packed) as source,
        write_tar(target) as tar,
    ):
        for member in source:
            name = member.name.strip("/")
            top = name if top is None else top
            below = name[len(top) :].lstrip("/") if name != top else ""
            left -= len(below) + tarfile.BLOCKSIZE if below else 0
            own_name = "." if member.isdir() else name.rpartition("/")[2]
            left -= _select(source, tar, member, below or own_name)
            if left < 0:
                raise TooLargeError(f"{path!r} is larger than the limit of {limit} bytes")
            if below.count("/") > _MAX_DEPTH:
                raise ContentError(f"{path!r}: directories are nested more than {_MAX_DEPTH} deep")


def _select(source: tarfile.TarFile, tar: tarfile.TarFile, member: tarfile.TarInfo, name: str) -> int:
    """Copy a member under another name, if it is one to copy; returns how many bytes its content has."""
    content = source.extractfile(member) if member.isreg() or member.islnk() else None
    if content is None and not (member.isdir() or member.issym()):
        return 0
    copy = tarfile.TarInfo(name)
    copy.type = tarfile.REGTYPE if content is not None else member.type
    copy.mode, copy.uid, copy.gid, copy.mtime = member.mode & 0o7777, member.uid, member.gid, member.mtime
    if member.issym():
        copy.linkname = member.linkname
    if content is not None:
        content.seek(0, 2)
        copy.size = content.tell()
        content.seek(0)
    tar.addfile(copy, content)
    return copy.size


_STATUS = "X-Docker-Container-Path-Stat"
_FOLDER, _LINK = 1 << 31, 1 << 27  # file modes as the Go language has them
_SPECIAL = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21
_MAX_LINKS = 40
_TIMEOUT_SEC = 600.0
# What headers and padding may take at most, beside files as small as can be.
_SHARE, _SLACK = 4, 2**20


@dataclass(frozen=True, slots=True)
class Status:
    """What is at a path of a container; a link's own, not that of what it leads to."""

    mode: int
    size: int
    changed: str
    target: str

    @property
    def is_folder(self) -> bool:
        return bool(self.mode & _FOLDER) and not self.is_link

    @property
    def is_link(self) -> bool:
        return bool(self.mode & _LINK)

    @property
    def is_special(self) -> bool:
        """Whether it is a pipe, a socket or a device."""
        return bool(self.mode & _SPECIAL)


class Files:
    """The files of one container."""

    def __init__(self, client: EngineClient, container: str) -> None:
        self._client = client
        self._place = f"/containers/{container}/archive"

    async def status(self, path: str) -> Status | None:
        """What is there; None when nothing is, or only a link to nothing."""
        try:
            async with self._client.open("HEAD", self._place, None, {"path": path}) as response:
                found = json.loads(base64.b64decode(response.headers[_STATUS]))
        except EngineError as error:
            if error.status == 404 or await self._is_below_a_file(path):
                return None
            raise
        return Status(found["mode"], found["size"], found["mtime"], found.get("linkTarget", ""))

    async def _is_below_a_file(self, path: str) -> bool:
        """Engines call it a failure of theirs when a file is where a directory should be."""
        parent = posixpath.dirname(path)
        found = await self.status(parent) if parent not in ("", "/") else None
        return parent not in ("", "/") and (found is None or not found.is_folder)

    async def put(self, directory: str, archive: BinaryIO) -> None:
        """Unpack an archive below a directory, as `archives.unpack` does. Raises SandboxError."""
        base, missing = await self._nearest(directory)
        try:
            contents = await asyncio.to_thread(examine, archive)
        except SandboxError:
            await self._make(base, missing)
            raise
        there = await self._existing(f"{base}/{'/'.join(missing)}", contents) if not missing else set()
        with tempfile.TemporaryFile() as rewritten:
            await asyncio.to_thread(rewrite, archive, rewritten, missing, there)
            await self._send(base, rewritten)

    async def _make(self, base: str, missing: Parts) -> None:
        """Make the directory of an archive that turned out to be unusable: whoever comes next counts on it."""
        with tempfile.TemporaryFile() as archive:
            write(archive, [folder_member("/".join(missing[:end])) for end in range(1, len(missing) + 1)])
            await self._send(base, archive)

    async def put_members(self, members: list[tarfile.TarInfo]) -> None:
        """Have members without content made at the root, each in place of whatever is there."""
        with tempfile.TemporaryFile() as archive:
            write(archive, members)
            await self._send("/", archive)

    async def _send(self, directory: str, archive: BinaryIO) -> None:
        try:
            async with self._client.open(
                "PUT", self._place, archive, {"path": directory or "/"}, timeout_sec=_TIMEOUT_SEC
            ):
                pass
        except EngineError as error:
            raise SandboxError(f"cannot unpack below {directory!r}: {error}") from error

    async def _nearest(self, directory: str) -> tuple[str, Parts]:
        """The nearest directory there is, with all links followed, and what is missing below it."""
        path = posixpath.normpath(f"/{directory}").replace("//", "/")
        missing: Parts = ()
        for _ in range(_MAX_LINKS):
            found = await self.status(path) if path != "/" else None
            if path == "/" or (found and found.is_folder):
                return path.rstrip("/"), missing
            if found and not found.is_link:
                raise SandboxError(f"{path!r} is in the way: expected a directory, found a file")
            if found:
                path = posixpath.normpath(posixpath.join(posixpath.dirname(path), found.target))
            else:
                path, name = posixpath.split(path)
                missing = (name, *missing)
        raise SandboxError(f"{directory!r} leads through too many links")

    async def _existing(self, top: str, contents: Contents) -> set[Parts]:
        """The folders of an archive that are there already. Raises SandboxError for what stands in their way."""
        there: set[Parts] = {()}
        for parts in sorted(contents.folders, key=len):
            if not parts or parts[:-1] not in there:
                continue
            path = f"{top.rstrip('/')}/{'/'.join(parts)}"
            found = await self.status(path)
            if found and found.is_folder:
                there.add(parts)
            elif found and parts not in contents.own:
                raise SandboxError(
                    f"archive member {contents.folders[parts]!r}: {parts[-1]!r} is in the way: expected a directory, "
                    "found a link or a file"
                )
        return there

    async def get(self, path: str, archive: BinaryIO, limit: int) -> None:
        """Pack a file or directory, as `archives.pack` does. Raises FileNotFoundError, ContentError, TooLargeError."""
        path = posixpath.normpath(f"/{path}").replace("//", "/")
        found = await self.status(path)
        if found is None:
            raise FileNotFoundError(2, "No such file or directory", path)
        if found.is_link:
            write(archive, [link_member(posixpath.basename(path), found.target)])
        elif found.is_special:
            raise ContentError(
                f"{path!r} is a pipe, a socket or a device: only files, directories and links are packed"
            )
        elif not found.is_folder and found.size > limit:
            raise _too_large(path, limit)
        else:
            await self._fetch(path, archive, limit)

    async def _fetch(self, path: str, archive: BinaryIO, limit: int) -> None:
        with tempfile.TemporaryFile() as packed:
            left = limit * _SHARE + _SLACK
            try:
                async with self._client.open(
                    "GET", self._place, None, {"path": path}, timeout_sec=_TIMEOUT_SEC
                ) as response:
                    async for data in response.content.iter_any():
                        left -= len(data)
                        if left < 0:
                            raise _too_large(path, limit)
                        packed.write(data)
            except EngineError as error:
                if error.status == 404:
                    raise FileNotFoundError(2, "No such file or directory", path) from error
                raise ContentError(f"{path!r} cannot be packed: {error}") from error
            packed.seek(0)
            try:
                await asyncio.to_thread(select, packed, archive, path, limit)
            except tarfile.TarError as error:
                raise ContentError(f"{path!r} cannot be packed: {error}") from error
            archive.flush()


def _too_large(path: str, limit: int) -> TooLargeError:
    return TooLargeError(f"{path!r} is larger than the limit of {limit} bytes")
