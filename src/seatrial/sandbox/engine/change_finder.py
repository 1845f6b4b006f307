"""How the changes of a container are found, whatever its engine leaves out of its list of them.

Docker compares sizes and times, with every storage driver, and so does Podman without an overlay: a file rewritten with
its old size and its old time set again is not listed. Where the container's writable directory can be read, it tells;
elsewhere the folders of the system are compared with the image, file by file. Engines also list a removed directory by
its own name only; what was in it is looked up in the image.
"""

import asyncio
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seatrial.errors import TooLargeError
from seatrial.model.record import FileChanges
from seatrial.sandbox.archives import closing
from seatrial.sandbox.engine.changes import (
    ContainerChange,
    Kind,
    Seen,
    common,
    look,
    read_manifest,
    remember,
    since,
    summarize,
    telling_first,
)
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.container import Container
from seatrial.sandbox.engine.images import ImageFiles, system_differences
from seatrial.sandbox.layers import SYSTEM, is_whiteout, shown, walk_folder
from seatrial.untrusted.files import FOLDER

# The writable directory of a container's overlay knows of every file that was touched; an engine's own list may not.

_DRIVERS = ("overlay", "overlay2")


async def find_upper(client: EngineClient, container: str) -> Path | None:
    """The directory, of a container that is known to run on this machine; None where it has none that can be read."""
    found: dict[str, Any] = await client.ask("GET", f"/containers/{container}/json")
    driver: dict[str, Any] = found.get("GraphDriver") or {}
    folder = (driver.get("Data") or {}).get("UpperDir")
    if driver.get("Name") not in _DRIVERS or not folder or os.geteuid() != 0:
        return None
    return Path(folder) if await asyncio.to_thread(os.path.isdir, folder) else None


async def touched_files(upper: Path) -> dict[str, Kind]:
    """Every file in it by path. Whether one is new, rather than modified, only the engine's list tells."""
    return await asyncio.to_thread(_touched_files, upper)


def _touched_files(upper: Path) -> dict[str, Kind]:
    with closing(os.open(upper, FOLDER)) as top:
        return {
            f"/{shown(path)}": "removed" if is_whiteout(status) else "modified"
            for path, status, _ in walk_folder(top)
            if not stat.S_ISDIR(status.st_mode)
        }


_COMPARED = tuple(f"/{name}" for name in sorted({*SYSTEM, "root"}))
_MAX_LOOKED_UP = 2_000
_MAX_BELOW_BYTES = 2**33


def lists_everything(info: Mapping[str, Any], *, podman: bool) -> bool:
    """Whether an engine, by what it says of itself, lists every file that was touched."""
    status = {str(entry[0]): str(entry[1]) for entry in info.get("DriverStatus") or ()}
    return podman and info.get("Driver") == "overlay" and status.get("Native Overlay Diff") == "true"


@dataclass(frozen=True, slots=True)
class ChangeFinder:
    """Finds the changes of one container; `trusted` if its engine lists everything."""

    container: Container
    image: ImageFiles
    trusted: bool

    async def overview(self, hidden: Sequence[str]) -> Seen:
        """What differs from the image, as far as it is found without reading files."""
        container = self.container
        return await look(container.client, container.name, hidden, await self._touched())

    async def start(self, hidden: Sequence[str]) -> Seen:
        return await remember(self.container.client, self.container.name, await self.overview(hidden))

    async def start_copy(self, before: Seen, hidden: Sequence[str]) -> Seen:
        """The same for a copy of another container, of what differed there `before`, and is as it was then."""
        known, seen = {change.path for change in before.changes}, await self.overview(hidden)
        seen = replace(seen, changes=tuple(change for change in seen.changes if change.path in known))
        return common(before, await remember(self.container.client, self.container.name, seen))

    async def changes(self, before: Seen, hidden: Sequence[str]) -> FileChanges:
        """Every file that differs from the image and was not there, or not like this, before."""
        client, name = self.container.client, self.container.name
        touched, missing, complete = await self._touched(), set[str](), before.complete
        if touched is None and not self.trusted:
            try:
                kinds = await system_differences(client, name, self.image, _COMPARED)
            except TooLargeError:
                kinds, complete = {}, False
            missing = {path for path, kind in kinds.items() if kind == "removed"}
            touched = {path: kind for path, kind in kinds.items() if kind != "removed"}
        different = await since(client, name, before, await look(client, name, hidden, touched))
        gone = sorted((change for change in different if _may_be_a_folder(change)), key=lambda c: telling_first(c.path))
        complete = complete and len(gone) <= _MAX_LOOKED_UP
        folders, files = await self._in_removed_folders(gone[:_MAX_LOOKED_UP])
        earlier = {change.path for change in before.changes if change.kind == "removed"}
        kept = [change for change in different if change.path not in folders or change.status is not None]
        return summarize(kept, (missing | files) - earlier, complete=complete)

    async def _touched(self) -> dict[str, Kind] | None:
        """What the container has written, where its directory can be read; None where it cannot, or need not."""
        if self.trusted or self.container.local_pid() is None:
            return None
        upper = await find_upper(self.container.client, self.container.name)
        return None if upper is None else await touched_files(upper)

    async def _in_removed_folders(self, gone: Sequence[ContainerChange]) -> tuple[frozenset[str], frozenset[str]]:
        """Which of some that are gone were directories of the image, and the files in them that are not there now."""
        if not gone:
            return frozenset(), frozenset()
        folders, files = await self.image.below([change.path for change in gone])
        replaced = [change.path for change in gone if change.is_folder and change.path in folders]
        there = await read_manifest(self.container.client, self.container.name, replaced, _MAX_BELOW_BYTES)
        return folders, files - there.digests.keys()


def _may_be_a_folder(change: ContainerChange) -> bool:
    return change.kind == "removed" and (change.status is None or change.is_folder)
