"""The end state of a sandbox: kept as one compressed archive beside the record, and laid out again in a fresh sandbox.

The archive is a layer: all that differs from the image, with marks of what is gone as overlayfs has them.
"""

import asyncio
import os
import posixpath
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import zstandard

from seatrial.errors import ContentError, SandboxError
from seatrial.images.layer_owners import OwnersHere
from seatrial.sandbox.api import ExecSpec, Sandbox
from seatrial.sandbox.host.disks import spare_bytes
from seatrial.sandbox.overlay import OPAQUE_MARKS

ARCHIVE = "snapshot.tar.zst"
_PROGRAMS = frozenset({"bin", "sbin", "lib", "lib64", "usr", "x86_64-linux-gnu", "aarch64-linux-gnu"})
_COMMAND_SEC = 600.0
_MARK = "SCHILY.xattr."


async def keep_snapshot(sandbox: Sandbox, folder: Path) -> None:
    """Store all that differs from the image. Whatever still runs in the sandbox is ended for it.

    In an archive, because there nothing is alive: a layer's directory may hold programs with a stranger's setuid bit.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    # Only its owner may enter such a directory, whatever lies in it until it is removed.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".snapshot-", ignore_cleanup_errors=True) as scratch:
        layer, packed = Path(scratch) / "layer", Path(scratch) / ARCHIVE
        await sandbox.snapshot(layer)
        await asyncio.to_thread(_pack, layer, packed)
        packed.rename(folder / ARCHIVE)


def _pack(layer: Path, target: Path) -> None:
    owners = OwnersHere.here()

    def as_inside(member: tarfile.TarInfo) -> tarfile.TarInfo:
        # An ordinary user's layer has owners of this machine, who mean something else inside, and nothing elsewhere.
        member.uid, member.gid = owners.inside((layer / member.name).lstat())
        member.uname = member.gname = ""
        if member.isdir():
            member.pax_headers = {**member.pax_headers, **_opaque_mark(layer / member.name)}
        return member

    with (
        target.open("xb") as file,
        zstandard.ZstdCompressor(level=3).stream_writer(file) as writer,
        tarfile.open(fileobj=writer, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(layer, arcname=".", filter=as_inside)


def _opaque_mark(folder: Path) -> dict[str, str]:
    """The mark of a directory that hides those below it, as an entry of its header; other attributes do not matter."""
    found = {}
    for name in OPAQUE_MARKS:
        with suppress(OSError):
            found[f"{_MARK}{name}"] = os.getxattr(folder, name, follow_symlinks=False).decode()
    return found


async def lay_out_snapshot(sandbox: Sandbox, archive: Path) -> None:
    """Make a fresh sandbox of the same image what it was when the archive was made.

    Files, links and directories come back with their owners and modes, and what was removed is removed; pipes and
    sockets, which nobody holds open any more, do not. Raises ContentError for what is no such archive, and
    SandboxError where the sandbox cannot be made so.
    """
    with tempfile.TemporaryFile() as plain:
        layer = await asyncio.to_thread(_unpack, archive, plain)
        # All that takes programs comes before the agent's own are there. Unpacking leaves directories of the image as
        # they are, but the agent may have changed them too.
        for (mode, owner), folders in layer.folders.items():
            await _for_each(sandbox, _each_folder(f"chown {owner}", f"chmod {mode:o}"), folders)
        # What is gone may have been replaced by something else, a directory also by a file.
        await _for_each(sandbox, _each_folder("rm -rf"), layer.files)
        await _for_each(sandbox, "rm -rf --", sorted(layer.gone, key=_removed_when))
        plain.seek(0)
        await sandbox.put("/", plain)


def _each_folder(*commands: str) -> str:
    """A command that runs others on those of its arguments that are directories already."""
    each = " && ".join(f'{command} -- "$path"' for command in commands)
    return f"""sh -c 'for path; do [ -L "$path" ] || [ ! -d "$path" ] || {{ {each}; }} || exit 1; done' sh"""


def _removed_when(path: str) -> tuple[bool, str]:
    """What may be needed to remove the rest goes last."""
    return posixpath.basename(posixpath.dirname(path)) in _PROGRAMS or posixpath.basename(path) in _PROGRAMS, path


@dataclass(frozen=True, slots=True)
class _Layer:
    """Where an archive has what: paths that are gone, files and links, and directories by their mode and owner."""

    gone: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    folders: defaultdict[tuple[int, str], list[str]] = field(default_factory=lambda: defaultdict(list))


def _unpack(archive: Path, plain: BinaryIO) -> _Layer:
    """Write what a sandbox can unpack to `plain`; a stranger's archive must not fill the disk."""
    layer, room = _Layer(), spare_bytes(Path(tempfile.gettempdir()))
    try:
        with (
            zstandard.open(archive, "rb") as packed,
            tarfile.open(fileobj=packed, mode="r|", errors="surrogateescape") as source,
            tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as target,
        ):
            for member in source:
                room -= member.size
                if room < 0:
                    raise ContentError(f"{archive}: there is no room for what is in it on this machine")
                _take(member, layer, source, target)
    except (OSError, EOFError, tarfile.TarError, zstandard.ZstdError) as error:
        raise ContentError(f"{archive}: not the end state of a sandbox: {error}") from error
    return layer


def _take(member: tarfile.TarInfo, layer: _Layer, source: tarfile.TarFile, target: tarfile.TarFile) -> None:
    path = posixpath.normpath(f"/{member.name}")
    if member.ischr() and (member.devmajor, member.devminor) == (0, 0):  # overlayfs marks by this what is gone
        layer.gone.append(path)
        return
    if member.isdir():
        if any(member.pax_headers.get(f"{_MARK}{name}") == "y" for name in OPAQUE_MARKS):
            layer.gone.append(path)  # it was removed, and then made anew
        if path != "/":
            layer.folders[member.mode, f"{member.uid}:{member.gid}"].append(path)
    elif member.isreg() or member.issym() or member.islnk():
        layer.files.append(path)
    else:
        return
    member.pax_headers = {}
    target.addfile(member, source.extractfile(member) if member.isreg() else None)


async def _for_each(sandbox: Sandbox, command: str, paths: Iterable[str]) -> None:
    """Run a command of the image on paths of the sandbox. Nothing of an agent is in it yet, so it can be believed."""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    if not names:
        return
    argv = ("/bin/sh", "-c", f"xargs -0 {command}")
    done = await sandbox.exec(ExecSpec(argv, cwd="/", user=0, stdin=names, timeout_sec=_COMMAND_SEC))
    if done.exit_code != 0:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise SandboxError(f"the end state cannot be laid out: `{command}` ended with {done.exit_code}: {said}")
