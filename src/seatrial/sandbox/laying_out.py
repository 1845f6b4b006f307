"""Laying an archive of a layer over a sandbox that can only unpack files: programs of its image do the rest.

They run before anything of the archive is there, so that no program of an agent is among them.
"""

import asyncio
import os
import posixpath
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, Sandbox
from seatrial.sandbox.layer_marks import is_gone_mark, is_made_anew, knows_owner

_PROGRAMS = frozenset({"bin", "sbin", "lib", "lib64", "usr", "x86_64-linux-gnu", "aarch64-linux-gnu"})
_COMMAND_SEC = 600.0
# Pairs of what is to be done and a path: to directories a mode and perhaps an owner, in place of which a file is to be
# nothing, or whatever it is nothing. Not every image has a chown, and root's own directories need none.
_EACH = """own() { [ "$1" = 0:0 ] && [ -O "$2" ] && [ -G "$2" ] || chown "$1" -- "$2"; }
while [ $# -gt 1 ]; do
case "$1" in
gone) rm -rf -- "$2" ;;
file) [ -L "$2" ] || [ ! -d "$2" ] || rm -rf -- "$2" ;;
*) [ -L "$2" ] || [ ! -d "$2" ] || { { [ -z "${1#* }" ] || own "${1#* }" "$2"; } && chmod "${1%% *}" -- "$2"; } ;;
esac || exit 1; shift 2; done"""
_COMMAND = ("/bin/sh", "-c", 'xargs -0 -n 500 sh -c "$0" sh', _EACH)


async def lay_out_by_commands(sandbox: Sandbox, directory: str, archive: BinaryIO) -> None:
    """Lay a layer over what is below a directory. Raises SandboxError where the sandbox cannot be made so."""
    with tempfile.TemporaryFile() as plain:
        commands = await asyncio.to_thread(_divide, archive, plain, directory)
        words = b"".join(os.fsencode(word) + b"\0" for word in commands.words())
        if words:
            done = await sandbox.exec(ExecSpec(_COMMAND, cwd="/", user=0, stdin=words, timeout_sec=_COMMAND_SEC))
            if done.exit_code != 0:
                said = done.stderr.decode(errors="replace").strip()[-500:]
                raise SandboxError(f"the end state cannot be laid out: a command ended with {done.exit_code}: {said}")
        plain.seek(0)
        await sandbox.put(directory, plain)


@dataclass(frozen=True, slots=True)
class _Commands:
    """What unpacking leaves to do: paths that are gone, files and links, and directories with a mode and owner."""

    gone: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    folders: list[tuple[str, str]] = field(default_factory=list)

    def words(self) -> Iterable[str]:
        """What is to be done and to what, one after the other."""
        for manner, path in self.folders:
            yield from (manner, path)
        # What is gone may have been replaced by something else, a directory also by a file.
        for path in self.files:
            yield from ("file", path)
        for path in sorted(self.gone, key=_removed_when):
            yield from ("gone", path)


def _removed_when(path: str) -> tuple[bool, str]:
    """What may be needed to remove the rest goes last."""
    return posixpath.basename(posixpath.dirname(path)) in _PROGRAMS or posixpath.basename(path) in _PROGRAMS, path


def _divide(archive: BinaryIO, plain: BinaryIO, directory: str) -> _Commands:
    """Write what can be unpacked to `plain`; the rest is for commands."""
    commands = _Commands()
    archive.seek(0)
    with (
        tarfile.open(fileobj=archive, mode="r:", errors="surrogateescape") as source,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape") as target,
    ):
        for member in source:
            path = posixpath.normpath(f"{directory}/{member.name}").replace("//", "/")
            if is_gone_mark(member):
                commands.gone.append(path)
                continue
            if is_made_anew(member):
                commands.gone.append(path)
            if member.isdir() and path != "/":
                owner = f"{member.uid}:{member.gid}" if knows_owner(member) else ""
                commands.folders.append((f"{member.mode:o} {owner}", path))
            elif not member.isdir():
                commands.files.append(path)
            target.addfile(member, source.extractfile(member) if member.isreg() else None)
    return commands
