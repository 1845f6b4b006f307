"""What a container has written, by the writable directory of its overlay, if that is on this machine and ours to read.

It knows of every file that was touched, however its size and time look now; an engine's own list may not.
"""

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

from seatrial.sandbox.archive import closing
from seatrial.sandbox.engine.client import EngineClient
from seatrial.sandbox.engine.manifest import Kind
from seatrial.sandbox.overlay import is_whiteout
from seatrial.sandbox.overlay_walk import FOLDER, walk_folder

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
            _shown(path): "removed" if is_whiteout(status) else "modified"
            for path, status, _ in walk_folder(top)
            if not stat.S_ISDIR(status.st_mode)
        }


def _shown(path: str) -> str:
    """A path from the root; a name that is not UTF-8 is shown with its odd bytes written out."""
    return f"/{os.fsencode(path).decode('utf-8', 'backslashreplace')}"
