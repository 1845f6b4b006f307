"""What is in folders of a container, by content: one digest per file, from archives that are read and not stored.

A digest is over everything a tool can notice of a file but its times: its kind, mode, owner, target, attributes and
content. So two containers can be compared by it, or one with itself at another time.
"""

import asyncio
import hashlib
import os
import posixpath
import queue
import tarfile
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Literal

from seatrial.concurrency import finish
from seatrial.errors import SandboxError, TooLargeError
from seatrial.sandbox.engine.client import EngineClient, EngineError
from seatrial.sandbox.engine.files import Files

Kind = Literal["modified", "added", "removed"]

_TIMEOUT_SEC = 600.0
_PIECE = 2**18
_BATCH = 2**21
_BATCHES_AHEAD = 8
_NOT_FOUND = 404
_ATTRIBUTE = "SCHILY.xattr."
_UNREADABLE = (tarfile.TarError, OSError, ValueError, ArithmeticError, EOFError, RecursionError)


@dataclass(frozen=True, slots=True)
class FileManifest:
    """Digests by path, directories left out, and how many bytes were read for it."""

    digests: Mapping[str, bytes] = field(default_factory=dict)
    size: int = 0


def compare(before: FileManifest, now: FileManifest) -> dict[str, Kind]:
    """What differs between two manifests, by path."""
    old, new = before.digests, now.digests
    kinds: dict[str, Kind] = dict.fromkeys(new.keys() - old.keys(), "added")
    kinds |= dict.fromkeys(old.keys() - new.keys(), "removed")
    return kinds | {path: "modified" for path in new.keys() & old.keys() if new[path] != old[path]}


class _Stream:
    """A file for a thread to read, filled from the event loop that it is made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_BATCHES_AHEAD)
        self._batches: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._held = b""
        self._over = False

    async def fill(self, pieces: AsyncIterator[bytes], limit: int) -> int:
        """Hand all of it over, waiting while the reader is behind; returns how much it was. Raises TooLargeError."""
        size = 0
        batch = bytearray()  # engines send little at a time, and each hand-over costs a change of threads
        try:
            async for piece in pieces:
                size += len(piece)
                if size > limit:
                    raise TooLargeError("there is more to compare than was allowed")
                batch += piece
                if len(batch) >= _BATCH:
                    await self._room.acquire()
                    self._batches.put(bytes(batch))
                    batch.clear()
            if batch:
                self._batches.put(bytes(batch))
        finally:
            self._batches.put(b"")
        return size

    def _next(self) -> bytes:
        batch = self._batches.get()
        self._loop.call_soon_threadsafe(self._room.release)
        self._over = not batch
        return batch

    def read(self, size: int) -> bytes:
        """The next bytes, fewer only at the end."""
        parts = [self._held]
        missing = size - len(self._held)
        while missing > 0 and not self._over:
            parts.append(self._next())
            missing -= len(parts[-1])
        found = b"".join(parts)
        self._held = found[size:]
        return found[:size]

    def drop(self) -> None:
        """Read to the end, so that nobody waits for the reader."""
        while not self._over:
            self._next()


async def read_manifest(client: EngineClient, container: str, paths: Iterable[str], limit: int) -> FileManifest:
    """The files at and below paths of a container, running or not; a path at which nothing is has none.

    Raises TooLargeError when their archives have more than `limit` bytes together, SandboxError if one cannot be read.
    """
    found: dict[str, bytes] = {}
    files, size = Files(client, container), 0
    for path in paths:
        status = await files.status(path)
        if status is None:
            continue
        if status.is_link or status.is_special:  # engines follow links here, or not, each its own way
            found[path] = hashlib.sha256(repr((status.mode, status.target)).encode()).digest()
        else:
            below = await read_tree(client, container, path, limit - size)
            found.update(below.digests)
            size += below.size
    return FileManifest(found, size)


async def read_tree(client: EngineClient, container: str, path: str, limit: int) -> FileManifest:
    """The same for one path that leads to a file or a directory."""
    stream, place = _Stream(), f"/containers/{container}/archive"
    try:
        async with client.open("GET", place, None, {"path": path}, timeout_sec=_TIMEOUT_SEC) as response:
            parent = posixpath.dirname(path).rstrip("/")
            reading = asyncio.ensure_future(asyncio.to_thread(_digest_all, stream, parent))
            try:
                size = await stream.fill(response.content.iter_any(), limit)
            finally:
                await finish(_ended(reading))
    except EngineError as error:
        if error.status == _NOT_FOUND:
            return FileManifest()  # gone since it was looked at
        raise SandboxError(f"{path!r} cannot be compared with the image: {error}") from error
    return FileManifest(reading.result(), size)


async def _ended(reading: "asyncio.Future[dict[str, bytes]]") -> None:
    await asyncio.wait([reading])
    reading.exception()  # heard of, even if what went wrong before is what is raised


def _digest_all(stream: _Stream, parent: str) -> dict[str, bytes]:
    """Raises SandboxError for an archive that is none; the stream is at its end in any case."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(  # type: ignore[call-overload]
            fileobj=stream, mode="r|", bufsize=_PIECE, encoding="utf-8", errors="surrogateescape"
        ) as tar:
            for member in tar:
                tar.members = []  # it would keep them all
                if not member.isdir():
                    path = _path(parent, member.name)
                    same = _path(parent, member.linkname)
                    # A second name of a file that came before: what is behind it is what counts.
                    found[path] = found.get(same, b"") if member.islnk() else _digest(tar, member)
    except _UNREADABLE as error:
        raise SandboxError(f"an archive of the container cannot be read: {error}") from error
    finally:
        stream.drop()
    return found


def _path(parent: str, name: str) -> str:
    """The path of a member; a name that is not UTF-8 is shown with its odd bytes written out."""
    shown = os.fsencode(name).decode("utf-8", "backslashreplace").strip("/")
    return f"{parent}/{shown}"


def _digest(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    attributes = sorted(item for item in member.pax_headers.items() if item[0].startswith(_ATTRIBUTE))
    device = (member.devmajor, member.devminor) if member.isdev() else ()
    facts = (member.type, member.mode & 0o7777, member.uid, member.gid, member.linkname, device, attributes)
    digest = hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape"))
    content: IO[bytes] | None = tar.extractfile(member) if member.isreg() else None
    while content and (piece := content.read(_PIECE)):
        digest.update(piece)
    return digest.digest()
