"""What differs from the image: an engine's own list, which knows names only, and a look at each of them.

An engine lists directories among the rest, and does not say when a file was changed. So every name that may be a file
is asked about. What was there before (`Seen`) counts as untouched if its content is the same, by digest; what was too
much to read then, or is now, counts as changed. What engines leave out of their lists, `change_finder.py` finds.
"""

import asyncio
import hashlib
import posixpath
import queue
import tarfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Literal

from seatrial.concurrency import finish
from seatrial.errors import SandboxError, TooLargeError
from seatrial.model.record import FileChanges
from seatrial.sandbox.archives import UNREADABLE, read_tar
from seatrial.sandbox.engine.client import EngineClient, EngineError
from seatrial.sandbox.engine.files import Files, Status
from seatrial.sandbox.layers import SYSTEM, XATTR, shown

Kind = Literal["modified", "added", "removed"]
_KINDS: tuple[Kind, ...] = ("modified", "added", "removed")
_MAX_LISTED = 200_000
_MAX_ASKED = 2_000
_MAX_FILE_BYTES = 2**26
_HEADERS = 2**20  # of an archive with one file
_MAX_READ_BYTES = 2**29
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """One path that differs, and what is there now; None for nothing, and for what nobody was asked about."""

    path: str
    kind: Kind
    status: Status | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory, as far as is known."""
        return self.status is not None and self.status.is_folder

    @property
    def has_content(self) -> bool:
        """Whether it may be a file, of which a status does not tell everything."""
        if self.status is None:
            return self.kind != "removed"
        return not (self.status.is_folder or self.status.is_link or self.status.is_special)


@dataclass(frozen=True, slots=True)
class Seen:
    """What differed from the image at some time; `complete` if all of it was found and looked at."""

    changes: tuple[ContainerChange, ...] = ()
    complete: bool = True
    digests: Mapping[str, bytes] = field(default_factory=dict)
    """Of files, as far as `remember` could read them."""
    _known: Mapping[ContainerChange, None] = field(default_factory=dict)

    def __contains__(self, change: object) -> bool:
        return change in self._known


async def look(
    client: EngineClient, container: str, hidden: Sequence[str], unlisted: Mapping[str, Kind] | None = None
) -> Seen:
    """What differs from the image now, directories included, but for what is at or below `hidden` ones.

    `unlisted` are paths that are known to differ and that the engine may not list.
    """
    answer: Sequence[Mapping[str, Any]] = await client.ask("GET", f"/containers/{container}/changes") or ()
    known = {**(unlisted or {}), **{entry["Path"]: _KINDS[entry["Kind"]] for entry in answer}}
    listed = {path: kind for path, kind in known.items() if not _is_below(path, hidden)}
    parents = {path.rpartition("/")[0] for path, kind in listed.items() if kind != "removed"}
    files, asked = Files(client, container), asyncio.Semaphore(_AT_ONCE)

    async def ask(path: str) -> ContainerChange:
        async with asked:
            return ContainerChange(path, listed[path], await files.status(path))

    # What something new or changed is in must be a directory.
    folders = [ContainerChange(path, listed[path], _SOME_FOLDER) for path in listed if path in parents]
    leaves = sorted((path for path in listed if path not in parents), key=telling_first)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(path)) for path in leaves[:_MAX_ASKED]]
    unknown = [ContainerChange(path, listed[path]) for path in leaves[_MAX_ASKED:]]
    found = (*folders, *(task.result() for task in tasks), *unknown)
    return Seen(found, not unknown, {}, dict.fromkeys(found))


_SOME_FOLDER = Status(1 << 31, 0, "", "")


def telling_first(path: str) -> tuple[bool, str]:
    """Whoever fills a folder of their own must not push those of the system out of what is looked at."""
    return path.split("/", 2)[1] not in SYSTEM, path


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


async def remember(client: EngineClient, container: str, seen: Seen) -> Seen:
    """The same with the digests of its files, as far as they are not too many and too large."""
    left, paths = _MAX_READ_BYTES, []
    for change in seen.changes:
        if change.status is not None and change.has_content and change.status.size <= min(left, _MAX_FILE_BYTES):
            left -= change.status.size
            paths.append(change.path)
    return replace(seen, digests=await _digests(client, container, paths))


async def since(client: EngineClient, container: str, before: Seen, now: Seen) -> list[ContainerChange]:
    """What differs now and was not there, or not like this, before; no directories, but for those that are removed.

    Beyond so many names, nobody is asked whether they are directories, and they count as files.
    """
    same = [change for change in now.changes if change in before]
    files = [change.path for change in same if change.path in before.digests]
    digests = await _digests(client, container, files)
    untouched = {change.path for change in same if not change.has_content}
    untouched |= {path for path in files if digests.get(path) == before.digests[path]}
    return [
        change
        for change in now.changes
        if change.path not in untouched and (change.kind == "removed" or not change.is_folder)
    ]


def common(before: Seen, copy: Seen) -> Seen:
    """What of a copy in another container was there before, and like this: by content, for times are not copied."""
    earlier = {change.path: change for change in before.changes}

    def was_there(change: ContainerChange) -> bool:
        then = earlier.get(change.path)
        if then is None or _outward(then) != _outward(change):
            return False
        digest = before.digests.get(change.path)
        return not change.has_content or (digest is not None and digest == copy.digests.get(change.path))

    found = tuple(change for change in copy.changes if was_there(change))
    return replace(copy, changes=found, complete=before.complete and copy.complete, _known=dict.fromkeys(found))


def _outward(change: ContainerChange) -> tuple[int, str] | None:
    """What a status tells beside content and times."""
    return None if change.status is None else (change.status.mode, change.status.target)


async def _digests(client: EngineClient, container: str, paths: Iterable[str]) -> dict[str, bytes]:
    """The digests of files; of what has become too large, or is no file any more, there is none."""
    asked = asyncio.Semaphore(_AT_ONCE)

    async def ask(path: str) -> Mapping[str, bytes]:
        async with asked:
            try:
                return (await read_tree(client, container, path, _MAX_FILE_BYTES + _HEADERS)).digests
            except SandboxError:
                return {}

    async with asyncio.TaskGroup() as group:
        tasks = {path: group.create_task(ask(path)) for path in paths}
    return {path: task.result()[path] for path, task in tasks.items() if path in task.result()}


def summarize(different: Sequence[ContainerChange], gone: Iterable[str], *, complete: bool) -> FileChanges:
    """The files among what differs, with names of others that are `gone`, as records have them."""
    found: dict[str, Kind] = dict.fromkeys(gone, "removed")
    for change in different:
        # Where something is removed and yet there is something, it has taken the place.
        if not change.is_folder:
            found[change.path] = "modified" if change.kind == "removed" and change.status is not None else change.kind
    kept = sorted(found, key=telling_first)[:_MAX_LISTED]
    lists = {kind: tuple(sorted(path for path in kept if found[path] == kind)) for kind in _KINDS}
    return FileChanges(**lists, truncated=len(found) > _MAX_LISTED or not complete)


# Manifests: a digest for each file, from archives that are read and not stored. It is over everything a tool can notice
# of a file but its times, so two containers can be compared by it, or one with itself at another time.

_TIMEOUT_SEC = 600.0
_PIECE = 2**18
_BATCH = 2**21
_BATCHES_AHEAD = 8
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class FileManifest:
    """Digests by path, directories left out, and how many bytes were read for it."""

    digests: Mapping[str, bytes] = field(default_factory=dict)
    size: int = 0


def compare(before: FileManifest, now: FileManifest) -> dict[str, Kind]:
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
        with read_tar(stream, "r|", bufsize=_PIECE) as tar:
            for member in tar:
                tar.members.clear()  # type: ignore[attr-defined] # it would keep them all
                if not member.isdir():
                    path = _path(parent, member.name)
                    same = _path(parent, member.linkname)
                    # A second name of a file that came before: what is behind it is what counts.
                    found[path] = found.get(same, b"") if member.islnk() else _digest(tar, member)
    except UNREADABLE as error:
        raise SandboxError(f"an archive of the container cannot be read: {error}") from error
    finally:
        stream.drop()
    return found


def _path(parent: str, name: str) -> str:
    return f"{parent}/{shown(name).strip('/')}"


def _digest(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    attributes = sorted(item for item in member.pax_headers.items() if item[0].startswith(XATTR))
    device = (member.devmajor, member.devminor) if member.isdev() else ()
    facts = (member.type, member.mode & 0o7777, member.uid, member.gid, member.linkname, device, attributes)
    digest = hashlib.sha256(repr(facts).encode("utf-8", "surrogateescape"))
    content: IO[bytes] | None = tar.extractfile(member) if member.isreg() else None
    while content and (piece := content.read(_PIECE)):
        digest.update(piece)
    return digest.digest()
