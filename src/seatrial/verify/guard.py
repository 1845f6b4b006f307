"""Putting back what the agent planted or changed to take over its judge's tools.

A file of the image gets its own content again; a file the image does not have is removed, or, when it shadows a
program of the image, becomes a link to that program.
"""

import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from seatrial.errors import SandboxError
from seatrial.model.record import FileChanges
from seatrial.sandbox.api import DEFAULT_PATH, ExecSpec, Image, Sandbox
from seatrial.verify.integrity import takeovers

_PROGRAM_FOLDERS = tuple(DEFAULT_PATH.split(":"))
_HOST_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib")
_REMOVE = ("/bin/sh", "-c", "xargs -0 rm -rf --")
_REMOVAL_TIMEOUT_SEC = 60.0


def to_restore(changes: FileChanges, image: Image) -> tuple[str, ...]:
    """The files of the sandbox that have to be as in the image before anything is judged there."""
    return takeovers(changes, lambda path: _shadowed(image, path) is not None)


async def restore(sandbox: Sandbox, image: Image, paths: Sequence[str]) -> None:
    """Put files of the sandbox back as the image has them. The agent's processes must be gone: they would undo it."""
    originals = {path: list(_originals(image, path)) for path in paths}
    try:
        await _put(sandbox, image, [member for path in paths for member in originals[path] or [_gone(path)]])
    except SandboxError:
        # A full disk, most likely, and whoever filled it shall not gain by it: what is not there forges nothing.
        await _put(sandbox, image, [_gone(path) for path in paths])
    if strange := [path for path in paths if not originals[path]]:
        names = b"".join(os.fsencode(path) + b"\0" for path in strange)
        await sandbox.exec(ExecSpec(_REMOVE, cwd="/", stdin=names, timeout_sec=_REMOVAL_TIMEOUT_SEC))


async def _put(sandbox: Sandbox, image: Image, members: Sequence[tarfile.TarInfo]) -> None:
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            for member in members:
                found = _in_image(image, f"/{member.name}") if member.isreg() else None
                content = found.read_bytes() if found else b""
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
        archive.seek(0)
        await sandbox.put("/", archive)


def _gone(path: str) -> tarfile.TarInfo:
    """As good as nothing: a link to where nobody can put anything. It takes no room on a disk."""
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type, member.linkname = tarfile.SYMTYPE, "/proc/removed"
    return member


def _originals(image: Image, path: str) -> Iterator[tarfile.TarInfo]:
    """What the image has there: a file, or a folder with the programs in it. Nothing when there is nothing."""
    if found := _in_image(image, path):
        yield _member(path, found)
    elif folders := [root / path.lstrip("/") for root in _roots(image, path) if (root / path.lstrip("/")).is_dir()]:
        member = _member(path, folders[0])
        member.type = tarfile.DIRTYPE
        yield member
        if path in _PROGRAM_FOLDERS:
            names = sorted({entry.name for folder in folders for entry in folder.iterdir()})
            files = ((f"{path}/{name}", _in_image(image, f"{path}/{name}")) for name in names)
            yield from (_member(name, file) for name, file in files if file)
    elif shadowed := _shadowed(image, path):
        member = tarfile.TarInfo(path.lstrip("/"))
        member.type, member.linkname = tarfile.SYMTYPE, shadowed
        yield member


def _member(path: str, found: Path) -> tarfile.TarInfo:
    member = tarfile.TarInfo(path.lstrip("/"))
    member.mode = stat.S_IMODE(found.lstat().st_mode)
    if found.is_symlink():
        member.type, member.linkname = tarfile.SYMTYPE, str(found.readlink())
    return member


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
    folder, _, name = path.rpartition("/")
    if folder not in _PROGRAM_FOLDERS:
        return None
    others = (f"{other}/{name}" for other in _PROGRAM_FOLDERS)
    return next((other for other in others if other != path and _in_image(image, other)), None)
