"""Putting back what the agent planted or changed to take over its judge's tools.

A file of the image gets its own content again; a file the image does not have becomes empty, or, when it shadows a
program of the image, a link to that program.
"""

import io
import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from seatrial.sandbox.api import DEFAULT_PATH, Image, Sandbox
from seatrial.sandbox.transfer import new_archive

_HOST_PROGRAMS = ("/usr/", "/bin/", "/sbin/", "/lib")


async def restore(sandbox: Sandbox, image: Image, paths: Sequence[str]) -> None:
    """Put files of the sandbox back as the image has them. The agent's processes must be gone: they would undo it."""
    with new_archive() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for path in paths:
                member, content = _original(image, path)
                tar.addfile(member, io.BytesIO(content))
        archive.seek(0)
        await sandbox.put("/", archive)


def _original(image: Image, path: str) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(path.lstrip("/"))
    found = _in_image(image, path)
    if found is None:
        member.mode = 0o644
        if shadowed := _shadowed(image, path):
            member.type, member.linkname = tarfile.SYMTYPE, shadowed
        return member, b""
    status = found.lstat()
    member.mode = stat.S_IMODE(status.st_mode)
    if found.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, str(found.readlink())
        return member, b""
    content = found.read_bytes()
    member.size = len(content)
    return member, content


def _in_image(image: Image, path: str) -> Path | None:
    """Where this machine keeps a file of the image; a layer's mark of removal counts as no file."""
    for root in _roots(image, path):
        place = root / path.lstrip("/")
        if place.is_symlink() or place.is_file():
            return place
        if os.path.lexists(place):
            return None
    return None


def _roots(image: Image, path: str) -> Iterator[Path]:
    yield from reversed(image.layers)
    # Nothing else of this machine is in the host image, so nothing else may come from it.
    if image.base == "host" and path.startswith(_HOST_PROGRAMS):
        yield Path("/")


def _shadowed(image: Image, path: str) -> str | None:
    """The program of the image that a new program of the same name stands in front of."""
    name = path.rpartition("/")[2]
    others = (f"{folder}/{name}" for folder in DEFAULT_PATH.split(":"))
    return next((other for other in others if other != path and _in_image(image, other)), None)
