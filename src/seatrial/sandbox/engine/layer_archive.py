"""What differs from the image, packed out of a container as an archive of a layer: no rights of this machine needed."""

import asyncio
import tarfile
import tempfile
from typing import BinaryIO

from seatrial.sandbox.api import MAX_ARCHIVE_BYTES
from seatrial.sandbox.engine.changes import ContainerChange, Seen
from seatrial.sandbox.engine.files import Files, Status
from seatrial.sandbox.layer_marks import gone_mark, of_unknown_owner, refuse_large

_SPECIAL_BITS = {1 << 23: 0o4000, 1 << 22: 0o2000, 1 << 20: 0o1000}  # file modes as the Go language has them


async def pack_container(seen: Seen, files: Files, archive: BinaryIO, limit: int) -> None:
    """Pack what is different. Raises TooLargeError before it begins for more than `limit` bytes of files.

    New directories come whole, with their owners; of a directory of the image in which something has changed, the
    owner is not known.
    """
    contents = sum(change.status.size for change in seen.changes if change.status and change.has_content)
    refuse_large(contents, len(seen.changes), limit)
    whole = {change.path for change in seen.changes if change.is_folder and change.kind == "added"}
    with tarfile.open(
        fileobj=archive, mode="w|", format=tarfile.PAX_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as tar:
        for change in sorted(seen.changes, key=lambda each: each.path):
            if not _is_inside(change.path, whole):
                await _add(tar, change, files, new=change.path in whole)


def _is_inside(path: str, folders: set[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:depth]) in folders for depth in range(2, len(parts)))


async def _add(tar: tarfile.TarFile, change: ContainerChange, files: Files, *, new: bool) -> None:
    if change.kind == "removed" and change.status is None:
        await asyncio.to_thread(tar.addfile, gone_mark(change.path.lstrip("/")))
    elif new or not change.is_folder:
        await _copy(tar, change, files)
    # What is known of a folder may be no more than that it is one.
    elif found := await files.status(change.path):
        await asyncio.to_thread(tar.addfile, _folder(change.path, found))


def _folder(path: str, status: Status) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type = tarfile.DIRTYPE
    member.mode = status.mode & 0o777 | sum(bit for flag, bit in _SPECIAL_BITS.items() if status.mode & flag)
    return of_unknown_owner(member)


async def _copy(tar: tarfile.TarFile, change: ContainerChange, files: Files) -> None:
    if change.status is not None and change.status.is_special:
        return  # a pipe or a socket, which leads to nobody any more
    with tempfile.TemporaryFile() as fetched:
        try:
            await files.get(change.path, fetched, MAX_ARCHIVE_BYTES)
        except FileNotFoundError:
            return  # gone since it was listed, or a link to nothing that the engine does not show
        await asyncio.to_thread(_move, fetched, tar, change)


def _move(fetched: BinaryIO, tar: tarfile.TarFile, change: ContainerChange) -> None:
    """Add what was fetched of a path: a file under its own name, or a directory as `.` with what is below."""
    path = change.path.lstrip("/")
    fetched.seek(0)
    with tarfile.open(fileobj=fetched, mode="r:", encoding="utf-8", errors="surrogateescape") as source:
        for member in source:
            content = source.extractfile(member) if member.isreg() else None
            member.name = f"{path}/{member.name}" if change.is_folder and member.name != "." else path
            tar.addfile(member, content)
