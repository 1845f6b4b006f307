"""The end state of a sandbox, kept as one compressed archive beside the record."""

import asyncio
import os
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

import zstandard

from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.overlay import OPAQUE_MARKS

ARCHIVE = "snapshot.tar.zst"


async def keep_snapshot(sandbox: Sandbox, folder: Path) -> None:
    """Store all that differs from the image.

    In an archive, because there nothing is alive: a layer's directory may hold programs with a stranger's setuid bit.
    """
    # Only its owner may enter such a directory, whatever lies in it until it is removed.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".snapshot-", ignore_cleanup_errors=True) as scratch:
        layer = Path(scratch) / "layer"
        await sandbox.snapshot(layer)
        await asyncio.to_thread(_pack, layer, folder / ARCHIVE)


def _pack(layer: Path, target: Path) -> None:
    def with_mark(member: tarfile.TarInfo) -> tarfile.TarInfo:
        if member.isdir():
            member.pax_headers = {**member.pax_headers, **_opaque_mark(layer / member.name)}
        return member

    with (
        target.open("xb") as file,
        zstandard.ZstdCompressor(level=3).stream_writer(file) as writer,
        tarfile.open(fileobj=writer, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        tar.add(layer, arcname=".", filter=with_mark)


def _opaque_mark(folder: Path) -> dict[str, str]:
    """The mark of a directory that hides those below it, as an entry of its header; other attributes do not matter."""
    found = {}
    for name in OPAQUE_MARKS:
        with suppress(OSError):
            found[f"SCHILY.xattr.{name}"] = os.getxattr(folder, name, follow_symlinks=False).decode()
    return found
