"""What differs from the image: the engine's own list, which knows names only, and a look at each of them.

An engine lists directories among the rest, and does not say when a file was changed. So every name that may be a file
is asked about. What was there before (`Seen`) counts as untouched while its size, mode, time and target are the same; a
file rewritten with its old size and its old time set again passes for untouched, and a removed directory is listed
by its own name, without what was in it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from seatrial.model.record import FileChanges
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.files import Files, Status

Kind = Literal["modified", "added", "removed"]

_KINDS: tuple[Kind, ...] = ("modified", "added", "removed")
_MAX_LISTED = 200_000
_MAX_ASKED = 2_000
_AT_ONCE = 16
_SYSTEM = frozenset({"bin", "etc", "lib", "lib32", "lib64", "libx32", "opt", "sbin", "usr"})


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs, and what is there now; None for nothing, and for what nobody was asked about."""

    path: str
    kind: Kind
    status: Status | None = None

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory, as far as is known."""
        return self.status is not None and self.status.is_folder


@dataclass(frozen=True, slots=True)
class Seen:
    """What differed from the image at some time."""

    changes: tuple[Change, ...] = ()
    complete: bool = True
    _known: Mapping[Change, None] = field(default_factory=dict)

    def __contains__(self, change: object) -> bool:
        return change in self._known


async def look(client: EngineClient, container: str, hidden: str) -> Seen:
    """What differs from the image now, directories included, but for what is at or below `hidden`."""
    answer: Sequence[Mapping[str, Any]] = await client.ask("GET", f"/containers/{container}/changes") or ()
    listed = {entry["Path"]: _KINDS[entry["Kind"]] for entry in answer if not _is_below(entry["Path"], hidden)}
    parents = {path.rpartition("/")[0] for path, kind in listed.items() if kind != "removed"}
    files, asked = Files(client, container), asyncio.Semaphore(_AT_ONCE)

    async def ask(path: str) -> Change:
        async with asked:
            return Change(path, listed[path], await files.status(path))

    # What something new or changed is in must be a directory.
    folders = [Change(path, listed[path], _SOME_FOLDER) for path in listed if path in parents]
    leaves = sorted((path for path in listed if path not in parents), key=_telling_first)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(path)) for path in leaves[:_MAX_ASKED]]
    unknown = [Change(path, listed[path]) for path in leaves[_MAX_ASKED:]]
    found = (*folders, *(task.result() for task in tasks), *unknown)
    return Seen(found, not unknown, dict.fromkeys(found))


_SOME_FOLDER = Status(1 << 31, 0, "", "")


def _telling_first(path: str) -> tuple[bool, str]:
    """Whoever fills a folder of their own must not push those of the system out of what is looked at."""
    return path.split("/", 2)[1] not in _SYSTEM, path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def since(before: Seen, now: Seen) -> FileChanges:
    """The files among what differs now that were not there, or not like this, before.

    Beyond so many names, nobody is asked whether they are directories, and they count as files.
    """
    different = [change for change in now.changes if change not in before and not change.is_folder]
    different.sort(key=lambda change: _telling_first(change.path))
    found: dict[Kind, list[str]] = {kind: [] for kind in _KINDS}
    for change in different[:_MAX_LISTED]:
        # Where something is removed and yet there is something, it has taken the place.
        replaced = change.kind == "removed" and change.status is not None
        found["modified" if replaced else change.kind].append(change.path)
    lists = {kind: tuple(sorted(paths)) for kind, paths in found.items()}
    return FileChanges(**lists, truncated=len(different) > _MAX_LISTED or not before.complete)
