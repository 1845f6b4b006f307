"""The end state of a sandbox: kept as a compressed archive beside the record, and laid out again in a fresh sandbox.

The archive is a layer: all that differs from the image, with marks of what is gone as overlayfs has them. Large files
lie beside it, each under the digest of its content, so that those of several trials can be one on the disk.
"""

import asyncio
import os
import shutil
import tarfile
import tempfile
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import zstandard

from seatrial.concurrency import finish
from seatrial.errors import ContentError, SandboxError, TooLargeError
from seatrial.sandbox.api import Sandbox
from seatrial.sandbox.host.disks import spare_bytes
from seatrial.sandbox.layer_marks import is_gone_mark
from seatrial.sandbox.transfer import new_archive
from seatrial.trial.large_files import FOLDER, KeepRoom, keep_apart, put_together
from seatrial.trial.searched_stream import SECRET_FOUND, SearchedStream, holds_secret

ARCHIVE = "snapshot.tar.zst"
_LEVEL = 3
_LITTLE = 2**16


@dataclass(frozen=True, slots=True)
class KeepBounds:
    """How much is kept at most: bytes of files in the sandbox, and bytes on the disk; nothing with a secret in it."""

    raw: int
    packed: int
    secrets: Collection[str] = ()


ANYTHING = KeepBounds(raw=2**36, packed=2**36)


async def keep_snapshot(sandbox: Sandbox, folder: Path, bounds: KeepBounds = ANYTHING) -> int:
    """Store all that differs from the image, while nothing runs in the sandbox; returns how many bytes it takes.

    In an archive, because there nothing is alive: a layer's directory may hold programs with a stranger's setuid bit.
    Raises TooLargeError for more than the bounds, ContentError for a secret; then and otherwise, nothing is left.
    """
    folder.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240 - one directory
    try:
        with suppress(TooLargeError):
            return await _keep_little(sandbox, folder, bounds)
        return await _keep_much(sandbox, folder, bounds)
    except BaseException:
        remove_snapshot(folder)
        raise


def remove_snapshot(folder: Path) -> None:
    """Remove the end state that is kept in a folder, if one is."""
    (folder / ARCHIVE).unlink(missing_ok=True)
    shutil.rmtree(folder / FOLDER, ignore_errors=True)


async def _keep_little(sandbox: Sandbox, folder: Path, bounds: KeepBounds) -> int:
    """What takes no time is done at once: to have a thread do it would take longer. Raises TooLargeError."""
    with new_archive() as archive:
        await sandbox.pack_layer(archive, min(bounds.raw, _LITTLE))
        archive.seek(0)
        plain = archive.read()
    if holds_secret(plain, bounds.secrets):
        raise ContentError(SECRET_FOUND)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(plain)
    (folder / ARCHIVE).write_bytes(packed)
    return len(packed)


async def _keep_much(sandbox: Sandbox, folder: Path, bounds: KeepBounds) -> int:
    """Have the sandbox write to a pipe, from which a thread compresses: no second copy is ever made."""
    reader, writer = os.pipe()
    stream = SearchedStream(reader, bounds.secrets)
    room = KeepRoom(min(bounds.packed, spare_bytes(folder)))
    try:
        # At once, and not when this task waits for the first time: somebody must read before anybody writes.
        compressing = asyncio.get_running_loop().run_in_executor(None, _compress, stream, folder, room)
    except RuntimeError as error:  # no thread can be started now, but one that is free later will still do it
        stream.stop.set()
        os.close(writer)
        raise SandboxError(f"it cannot be packed: {error}") from error
    trouble: Exception | None = None
    try:
        with os.fdopen(writer, "wb", buffering=0) as archive:
            await sandbox.pack_layer(archive, bounds.raw)
    except (SandboxError, OSError) as error:
        trouble = error
    except BaseException:
        stream.stop.set()
        raise
    finally:
        failed = await finish(_ended(compressing))
    # Where the thread gave up before the end, there was nobody left to write to: that is the reason, not what came of
    # it. Otherwise the sandbox may have given up, and the thread only has half an archive.
    if reason := (trouble or failed) if stream.ended else (failed or trouble):
        raise reason
    return room.taken


async def _ended(compressing: "asyncio.Future[Exception | None]") -> Exception | None:
    return await compressing


def _compress(stream: SearchedStream, folder: Path, room: KeepRoom) -> Exception | None:
    """Compress what comes into an archive and large files beside it; returns what went wrong."""
    try:
        packer = zstandard.ZstdCompressor(level=_LEVEL)
        with (
            stream.unless_stopped(),
            (folder / ARCHIVE).open("xb") as file,
            packer.stream_writer(room.bounded(file), closefd=False) as packed,
        ):
            keep_apart(stream, packed, folder / FOLDER, room)
            while stream.read(_LITTLE):  # what fills the last record up
                pass
    except (OSError, ContentError) as error:
        return error
    except (tarfile.TarError, zstandard.ZstdError) as error:
        return ContentError(f"it cannot be packed: {error}")
    return None


async def lay_out_snapshot(sandbox: Sandbox, archive: Path) -> None:
    """Make a fresh sandbox of the same image what it was when the archive was made.

    Files, links and directories come back with their owners and modes, and what was removed is removed; pipes and
    sockets, which nobody holds open any more, do not. Raises ContentError for what is no such archive, and
    SandboxError where the sandbox cannot be made so.
    """
    with tempfile.TemporaryFile() as plain:
        await asyncio.to_thread(_unpack, archive, plain)
        plain.seek(0)
        await sandbox.unpack_layer("/", plain)


def _unpack(archive: Path, plain: BinaryIO) -> None:
    """Write the layer to `plain`, large files in it; a stranger's archive must not fill the disk."""
    spare = spare_bytes(Path(tempfile.gettempdir()))
    names = {"encoding": "utf-8", "errors": "surrogateescape"}
    try:
        with (
            zstandard.open(archive, "rb") as packed,
            tarfile.open(fileobj=packed, mode="r|", **names) as source,  # type: ignore[call-overload]
            tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT, **names) as target,  # type: ignore[call-overload]
        ):
            for member in source:
                if member.isreg() or member.isdir() or member.issym() or member.islnk() or is_gone_mark(member):
                    put_together(member, source, target, archive.parent / FOLDER, spare - target.offset)
    except (OSError, EOFError, ValueError, tarfile.TarError, zstandard.ZstdError) as error:
        raise ContentError(f"{archive}: not the end state of a sandbox: {error}") from error
