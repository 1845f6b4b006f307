"""Archives as an engine takes and gives them, against archives as sandboxes do. Pure work on files, for threads.

An engine unpacks whatever it is given and packs whatever is there. What a sandbox must refuse is found out before, and
what it must not hand out is left out afterwards.
"""

import tarfile
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import BinaryIO

from seatrial.errors import ContentError, SandboxError, TooLargeError
from seatrial.sandbox.unpacking import check_kind, safe_parts

Parts = tuple[str, ...]

_HEADER_BYTES = 512
_MAX_DEPTH = 200
# What the tarfile module raises over broken archives, far beyond its own errors.
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, EOFError, RecursionError)
_ENCODING = {"encoding": "utf-8", "errors": "surrogateescape"}


@dataclass(frozen=True, slots=True)
class Contents:
    """What an archive wants to have: each folder with the first member that needs it, and which it brings itself."""

    folders: Mapping[Parts, str]
    own: Set[Parts]


def examine(archive: BinaryIO) -> Contents:
    """Look through an archive before it is unpacked.

    Raises SandboxError naming the member for whatever `unpacking.unpack` refuses too: a name that is absolute or has
    `..`, a path through a link or file of the archive itself, a device, pipe or sparse file, a hard link to anything
    but an earlier file.
    """
    kinds: dict[Parts, str] = {}
    folders: dict[Parts, str] = {}
    own: set[Parts] = set()
    try:
        with tarfile.open(fileobj=archive, mode="r:", **_ENCODING) as tar:  # type: ignore[call-overload]
            for member in tar:
                _examine_member(member, kinds, folders, own)
    except _UNREADABLE as error:
        raise SandboxError(f"the archive is not readable as an uncompressed tar: {error}") from error
    return Contents(folders, own)


def _examine_member(
    member: tarfile.TarInfo, kinds: dict[Parts, str], folders: dict[Parts, str], own: set[Parts]
) -> None:
    try:
        parts = safe_parts(member.name)
        check_kind(member, parts)
        _check_links(member, parts, kinds)
    except SandboxError as error:
        raise SandboxError(f"archive member {member.name!r}: {error}") from error
    for depth in range(1, len(parts)):
        folders.setdefault(parts[:depth], member.name)
    if member.isdir():
        folders.setdefault(parts, member.name)
        own.add(parts)
    kinds[parts] = "folder" if member.isdir() else "link" if member.issym() else "file"


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
            tarfile.open(fileobj=archive, mode="r:", **_ENCODING) as source,  # type: ignore[call-overload]
            tarfile.open(fileobj=target, mode="w", **_ENCODING) as tar,  # type: ignore[call-overload]
        ):
            for depth in range(1, len(missing) + 1):
                tar.addfile(folder("/".join(missing[:depth])))
            for member in source:
                _copy(source, tar, member, missing, there)
    except _UNREADABLE as error:
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


def folder(name: str, mode: int = 0o755) -> tarfile.TarInfo:
    """A member that is a directory of root's."""
    member = tarfile.TarInfo(name)
    member.type, member.mode = tarfile.DIRTYPE, mode
    return member


def fresh_folders(modes: Mapping[str, int]) -> list[tarfile.TarInfo]:
    """Members that leave an empty directory under each name, whatever is there: a file pushes it out first."""
    return [member for name, mode in modes.items() for member in (tarfile.TarInfo(name), folder(name, mode))]


def write(target: BinaryIO, members: Iterable[tarfile.TarInfo]) -> None:
    """An archive of members without content, ready to be read."""
    with tarfile.open(fileobj=target, mode="w") as tar:
        for member in members:
            tar.addfile(member)
    target.seek(0)


def select(packed: BinaryIO, target: BinaryIO, path: str, limit: int) -> None:
    """What an engine packed from a path, as `archive.pack` has it.

    A file has its own name, a directory is `.` with what is below; pipes, sockets and devices are left out, and hard
    links become files of their own. Raises TooLargeError when files and headers take more than `limit` bytes.
    """
    left = limit
    top: str | None = None
    with (
        tarfile.open(fileobj=packed, mode="r:", **_ENCODING) as source,  # type: ignore[call-overload]
        tarfile.open(fileobj=target, mode="w", **_ENCODING) as tar,  # type: ignore[call-overload]
    ):
        for member in source:
            name = member.name.strip("/")
            top = name if top is None else top
            below = name[len(top) :].lstrip("/") if name != top else ""
            left -= len(below) + _HEADER_BYTES if below else 0
            left -= _select(source, tar, member, below or _own_name(member, name))
            if left < 0:
                raise TooLargeError(f"{path!r} is larger than the limit of {limit} bytes")
            if below.count("/") > _MAX_DEPTH:
                raise ContentError(f"{path!r}: directories are nested more than {_MAX_DEPTH} deep")


def _own_name(member: tarfile.TarInfo, name: str) -> str:
    return "." if member.isdir() else name.rpartition("/")[2]


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
