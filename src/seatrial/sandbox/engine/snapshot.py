"""What differs from the image, taken out of a container as a layer: directories, files, and marks of what is gone."""

import asyncio
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from seatrial.errors import HostUnsupportedError
from seatrial.sandbox.api import MAX_ARCHIVE_BYTES
from seatrial.sandbox.archive import closing
from seatrial.sandbox.engine.changes import ContainerChange, Seen
from seatrial.sandbox.engine.files import Files
from seatrial.sandbox.unpacking import unpack


async def save(seen: Seen, files: Files, layer: Path) -> None:
    """Fill a new directory. Raises HostUnsupportedError for what an ordinary user cannot store: that a file is gone.

    New directories come whole, with their owners; a directory of the image in which something has changed gets its
    mode and belongs to root.
    """
    gone = [change for change in seen.changes if change.kind == "removed" and change.status is None]
    if gone and os.geteuid() != 0:
        raise HostUnsupportedError(f"only root can store in a layer that files are gone, such as {gone[0].path}")
    layer.mkdir(parents=True)  # noqa: ASYNC240 - one directory
    whole = {change.path for change in seen.changes if change.is_folder and change.kind == "added"}
    for change in sorted(seen.changes, key=lambda each: each.path):
        if _is_inside(change.path, whole):
            continue
        place = layer / change.path.lstrip("/")
        await _make_parents(place.parent, layer, files)
        if change in gone:
            os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))
        elif change.is_folder and change.path not in whole:
            await _make_parents(place, layer, files)
        else:
            await _fetch(change, files, place)


def _is_inside(path: str, folders: set[str]) -> bool:
    parts = path.split("/")
    return any("/".join(parts[:depth]) in folders for depth in range(2, len(parts)))


async def _make_parents(folder: Path, layer: Path, files: Files) -> None:
    """Directories as the container has them, down to the given one."""
    for place in (*reversed(folder.relative_to(layer).parents), folder.relative_to(layer)):
        if not (layer / place).exists():
            status = await files.status(f"/{place}")
            (layer / place).mkdir()
            (layer / place).chmod(status.mode & 0o777 if status else 0o755)


async def _fetch(change: ContainerChange, files: Files, place: Path) -> None:
    with tempfile.TemporaryFile() as archive:
        try:
            await files.get(change.path, archive, MAX_ARCHIVE_BYTES)
        except FileNotFoundError:
            return  # gone since it was listed, or a link to nothing that the engine does not show
        archive.seek(0)
        into = place if change.is_folder else place.parent
        into.mkdir(exist_ok=True)
        await asyncio.to_thread(_unpack, archive, into)
        if change.is_folder and (found := await files.status(change.path)):
            into.chmod(found.mode & 0o777)


def _unpack(archive: BinaryIO, into: Path) -> None:
    with closing(os.open(into, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as folder:
        unpack(archive, folder)
