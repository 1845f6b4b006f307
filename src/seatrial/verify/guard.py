"""Putting files of a sandbox back in place, where its verifier cannot be given a system of its own.

The agent's processes must be gone: they would undo it. What was there is kept, so that it can be laid out once more.
"""

import hashlib
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO

from seatrial.errors import ContentError, SandboxError
from seatrial.sandbox.api import ExecSpec, Sandbox
from seatrial.sandbox.transfer import new_archive, pack_files, put_packed
from seatrial.verify.originals import Originals

# As good as nothing: a link to where nobody can put anything. It takes no room on a disk.
_NOWHERE = "/proc/removed"
_REMOVE = ("/bin/sh", "-c", "xargs -0 rm -rf --")
_EACH_ODD = 'cd "$1" && for name in * .[!.]*; do case "$name" in (*[!\\ -~]*) rm -rf -- "./$name";; esac; done'
_REMOVE_ODD = ("/bin/sh", "-c", f"LC_ALL=C; export LC_ALL; xargs -0 -n 1 /bin/sh -c '{_EACH_ODD}' sh")
_REMOVAL_TIMEOUT_SEC = 60.0
_MAX_SAVED = 200
_MAX_SAVED_BYTES = 64 * 2**20
_MAX_COMPARED = 2000
_MAX_COMPARED_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Saved:
    """Files as the agent left them: packed, each by its path, and those that were not there."""

    archives: Mapping[str, bytes] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


async def save(sandbox: Sandbox, paths: Collection[str]) -> Saved | None:
    """Keep some files as they are; None when they are too many or too large for that."""
    if len(paths) > _MAX_SAVED:
        return None
    archives: dict[str, bytes] = {}
    missing, room = [], _MAX_SAVED_BYTES
    for path in paths:
        with new_archive() as archive:
            try:
                await sandbox.get(path, archive, limit=room)
            except FileNotFoundError:
                missing.append(path)
                continue
            except ContentError:
                return None
            archive.seek(0)
            archives[path] = archive.read()
            room -= len(archives[path])
    return Saved(archives, tuple(missing)) if room >= 0 else None


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells a file or a link from others; `leads_to` is where a link leads."""

    content: str = ""
    leads_to: str | None = None


async def fingerprints(sandbox: Sandbox, paths: Iterable[str]) -> dict[str, Fingerprint]:
    """The fingerprints of what a sandbox has at some paths; an empty one where there is nothing.

    Only so many are looked at; folders, and what is too large or cannot be read, are left out.
    """
    found, room = {}, _MAX_COMPARED_BYTES
    for path in sorted(paths)[:_MAX_COMPARED]:
        with new_archive() as archive, suppress(ContentError):
            try:
                await sandbox.get(path, archive, limit=room)
            except FileNotFoundError:
                found[path] = Fingerprint()
                continue
            room -= archive.tell()
            archive.seek(0)
            if fingerprint := _fingerprint(path, archive):
                found[path] = fingerprint
    return found


def _fingerprint(path: str, archive: BinaryIO) -> Fingerprint | None:
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        member = tar.next()
        if member is not None and member.issym():
            leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), member.linkname))
            return Fingerprint("link", leads_to)
        content = tar.extractfile(member) if member is not None and member.isreg() else None
        if member is None or content is None:
            return None
        return Fingerprint(f"{member.mode:o} {hashlib.sha256(content.read()).hexdigest()}")


async def lay_out(sandbox: Sandbox, saved: Saved) -> bool:
    """Put files as they were saved; False where a sandbox has no room for them, which is its agent's doing."""
    await remove(sandbox, [*saved.missing, *saved.archives])
    try:
        for path, archive in saved.archives.items():
            await put_packed(sandbox, path.rpartition("/")[0] or "/", archive)
    except SandboxError:
        return False
    return True


async def restore(sandbox: Sandbox, originals: Originals, paths: Collection[str], rewritten: Mapping[str, str]) -> None:
    """Make files of the sandbox as the image has them; those that it does not have are removed. Some say a new text."""
    known = await originals.kinds(sorted(paths))
    strange = [path for path in sorted(paths) if path not in known]
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            await originals.pack(known, tar)
            _add_links(strange, tar)
        archive.seek(0)
        try:
            await sandbox.put("/", archive)
        except SandboxError:
            # A full disk, most likely, and whoever filled it shall not gain by it: what is not there forges nothing.
            await _take_away(sandbox, paths)
    await remove(sandbox, strange)
    await _remove_odd(sandbox, strange)
    if rewritten:
        await put_packed(
            sandbox, "/", pack_files({path.lstrip("/"): text.encode() for path, text in rewritten.items()})
        )


async def _take_away(sandbox: Sandbox, paths: Iterable[str]) -> None:
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as tar:
            _add_links(paths, tar)
        archive.seek(0)
        await sandbox.put("/", archive)


def _add_links(paths: Iterable[str], tar: tarfile.TarFile) -> None:
    for path in paths:
        member = tarfile.TarInfo(path.lstrip("/"))
        member.type, member.linkname = tarfile.SYMTYPE, _NOWHERE
        tar.addfile(member)


async def _remove_odd(sandbox: Sandbox, paths: Iterable[str]) -> None:
    """Remove what has odd bytes in its name, which nobody could tell: all such entries of the folders they are in."""
    folders = {path.rpartition("/")[0] for path in paths if not path.isascii() or "\\" in path}
    if folders:
        names = b"".join(os.fsencode(folder) + b"\0" for folder in sorted(folders))
        with suppress(SandboxError):
            await sandbox.exec(ExecSpec(_REMOVE_ODD, cwd="/", user=0, stdin=names, timeout_sec=_REMOVAL_TIMEOUT_SEC))


async def remove(sandbox: Sandbox, paths: Collection[str]) -> None:
    """Remove files and folders, as far as there are any."""
    if paths:
        names = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with suppress(SandboxError):
            await sandbox.exec(ExecSpec(_REMOVE, cwd="/", user=0, stdin=names, timeout_sec=_REMOVAL_TIMEOUT_SEC))
