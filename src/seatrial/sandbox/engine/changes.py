"""What differs from the image: an engine's own list, which knows names only, and a look at each of them.

An engine lists directories among the rest, and does not say when a file was changed. So every name that may be a file
is asked about. What was there before (`Seen`) counts as untouched if its content is the same, by digest; what was too
much to read then, or is now, counts as changed. What engines leave out of their lists, `sight.py` finds.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seatrial.errors import SandboxError
from seatrial.model.record import FileChanges
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.files import Files, Status
from seatrial.sandbox.engine.manifest import Kind, read_tree

_KINDS: tuple[Kind, ...] = ("modified", "added", "removed")
_MAX_LISTED = 200_000
_MAX_ASKED = 2_000
_MAX_FILE_BYTES = 2**26
_HEADERS = 2**20  # of an archive with one file
_MAX_READ_BYTES = 2**29
_AT_ONCE = 16
SYSTEM = frozenset({"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"})


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
