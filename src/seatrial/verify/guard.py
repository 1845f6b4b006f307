"""Putting back what the agent planted or changed to take over its judge's tools.

A file of the image gets its own content again; a file the image does not have is removed, or, when it shadows a
program of the image, becomes a link to that program.
"""

import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence

from seatrial.errors import SandboxError
from seatrial.model.record import FileChanges
from seatrial.sandbox.api import ExecSpec, Sandbox
from seatrial.verify.integrity import takeovers
from seatrial.verify.originals import PROGRAM_FOLDERS, Originals

# As good as nothing: a link to where nobody can put anything. It takes no room on a disk.
_NOWHERE = "/proc/removed"
_REMOVE = ("/bin/sh", "-c", "xargs -0 rm -rf --")
_REMOVAL_TIMEOUT_SEC = 60.0


async def to_restore(changes: FileChanges, originals: Originals) -> tuple[str, ...]:
    """The files of the sandbox that have to be as in the image before anything is judged there."""
    shadowed = await _shadowed(takeovers(changes, lambda _: True), originals)
    return takeovers(changes, shadowed.__contains__)


async def restore(sandbox: Sandbox, originals: Originals, paths: Sequence[str]) -> None:
    """Put files of the sandbox back as the image has them. The agent's processes must be gone: they would undo it."""
    known = await originals.kinds(paths)
    shadowed = await _shadowed([path for path in paths if path not in known], originals)
    strange = [path for path in paths if path not in known and path not in shadowed]
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            await originals.pack(known, tar)
            _add_links(shadowed | dict.fromkeys(strange, _NOWHERE), tar)
        archive.seek(0)
        try:
            await sandbox.put("/", archive)
        except SandboxError:
            # A full disk, most likely, and whoever filled it shall not gain by it: what is not there forges nothing.
            await _take_away(sandbox, paths)
    if strange:
        names = b"".join(os.fsencode(path) + b"\0" for path in strange)
        await sandbox.exec(ExecSpec(_REMOVE, cwd="/", user=0, stdin=names, timeout_sec=_REMOVAL_TIMEOUT_SEC))


async def _take_away(sandbox: Sandbox, paths: Sequence[str]) -> None:
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            _add_links(dict.fromkeys(paths, _NOWHERE), tar)
        archive.seek(0)
        await sandbox.put("/", archive)


def _add_links(targets: Mapping[str, str], tar: tarfile.TarFile) -> None:
    for path, target in targets.items():
        member = tarfile.TarInfo(path.lstrip("/"))
        member.type, member.linkname = tarfile.SYMTYPE, target
        tar.addfile(member)


async def _shadowed(paths: Sequence[str], originals: Originals) -> dict[str, str]:
    """The programs of the image that programs of the same name stand in front of, by the latter."""
    others = {path: _others(path) for path in paths}
    known = await originals.kinds([other for found in others.values() for other in found])
    programs = {
        path: next((each for each in found if known.get(each) == "file"), None) for path, found in others.items()
    }
    return {path: program for path, program in programs.items() if program}


def _others(path: str) -> list[str]:
    """Where else on the PATH a program of that name may be."""
    folder, _, name = path.rpartition("/")
    places = [f"{other}/{name}" for other in PROGRAM_FOLDERS] if folder in PROGRAM_FOLDERS else []
    return [place for place in places if place != path]
