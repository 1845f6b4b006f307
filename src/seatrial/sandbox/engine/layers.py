"""The layer that a container has written: out of it as a directory or an archive, and into another sandbox.

An engine hands out and unpacks files, and no marks of what is gone. So the marks are made here from what differs from
the image (`change_finder.py` finds that), and carried out inside by programs of the image. Those run before anything of
the archive is there, so that no program of an agent is among them.
"""

import asyncio
import os
import posixpath
import stat
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.api import MAX_ARCHIVE_BYTES, ExecSpec, Sandbox
from seatrial.sandbox.archives import closing, folder_member, read_tar, unpack, write_tar
from seatrial.sandbox.engine.changes import ContainerChange, Seen
from seatrial.sandbox.engine.files import Files, Status
from seatrial.sandbox.layers import gone_mark, is_gone_mark, is_made_anew, knows_owner, of_unknown_owner, refuse_large

# Out of a container, as a directory


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


# Out of a container, as an archive: no rights of this machine needed

_SPECIAL_BITS = {1 << 23: 0o4000, 1 << 22: 0o2000, 1 << 20: 0o1000}  # file modes as the Go language has them


async def pack_container(seen: Seen, files: Files, archive: BinaryIO, limit: int) -> None:
    """Pack what is different. Raises TooLargeError before it begins for more than `limit` bytes of files.

    New directories come whole, with their owners; of a directory of the image in which something has changed, the
    owner is not known.
    """
    contents = sum(change.status.size for change in seen.changes if change.status and change.has_content)
    refuse_large(contents, len(seen.changes), limit)
    whole = {change.path for change in seen.changes if change.is_folder and change.kind == "added"}
    with write_tar(archive, "w|") as tar:
        for change in sorted(seen.changes, key=lambda each: each.path):
            if not _is_inside(change.path, whole):
                await _add(tar, change, files, new=change.path in whole)


async def _add(tar: tarfile.TarFile, change: ContainerChange, files: Files, *, new: bool) -> None:
    if change.kind == "removed" and change.status is None:
        await asyncio.to_thread(tar.addfile, gone_mark(change.path.lstrip("/")))
    elif new or not change.is_folder:
        await _copy(tar, change, files)
    # What is known of a folder may be no more than that it is one.
    elif found := await files.status(change.path):
        await asyncio.to_thread(tar.addfile, _folder(change.path, found))


def _folder(path: str, status: Status) -> tarfile.TarInfo:
    mode = status.mode & 0o777 | sum(bit for flag, bit in _SPECIAL_BITS.items() if status.mode & flag)
    return of_unknown_owner(folder_member(path.lstrip("/"), mode))


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
    with read_tar(fetched) as source:
        for member in source:
            content = source.extractfile(member) if member.isreg() else None
            member.name = f"{path}/{member.name}" if change.is_folder and member.name != "." else path
            tar.addfile(member, content)


# Into a sandbox

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
        read_tar(archive) as source,
        write_tar(plain) as target,
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
