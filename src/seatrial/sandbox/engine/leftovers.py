"""Whose containers and volumes are whose: labels that name a run, and removing what runs that are no more left."""

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.engine.client import EngineClient, EngineError
from seatrial.sandbox.engine.endpoint import Engine, find_endpoint
from seatrial.sandbox.leftovers import Cleared
from seatrial.sandbox.runs import CONTAINERS, RunDirectory, abandoned, state_root

RUN = "org.seatrial.run"
_OWNER = "org.seatrial.owner"


def labels(run: RunDirectory) -> Mapping[str, str]:
    """What tells everybody whose it is, and whether its owner is still there."""
    owner = {"host": socket.gethostname(), "boot": _boot(), "folder": str(run.path)}
    return {RUN: run.name, _OWNER: json.dumps(owner)}


def _boot() -> str:
    """What is another with every start of this machine."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _is_dead(found: Mapping[str, str] | None) -> bool:
    """Whether the run that something belongs to is known to be no more."""
    try:
        owner = json.loads((found or {})[_OWNER])
        if owner["host"] != socket.gethostname():
            return False
        return bool(owner["boot"] != _boot() or _is_abandoned(Path(owner["folder"])))
    except (KeyError, ValueError, TypeError):
        return False


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody holds the lock of a run's directory."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


async def sweep(client: EngineClient) -> list[str]:
    """Remove what runs of this machine left behind that have died; returns what has gone, in words."""
    return await _remove(client, RUN, _is_dead)


async def clear_engine(engine: Engine) -> Cleared:
    """Remove containers and volumes of dead runs, if the daemon answers, and then the directories of those runs."""
    removed: list[str] = []
    with suppress(HostUnsupportedError, SandboxError):  # no such daemon here
        async with EngineClient(find_endpoint(engine)) as client:
            removed += [f"{engine} {thing}" for thing in await sweep(client)]
    return Cleared((*removed, *map(str, clear_folders(state_root()))))


async def remove_run(client: EngineClient, run: str) -> None:
    """Remove whatever a run still has."""
    await _remove(client, f"{RUN}={run}", lambda _: True)


def clear_folders(root: Path) -> list[Path]:
    """Remove the directories that dead runs left on this machine; returns which."""
    found = list(abandoned(root, CONTAINERS))
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return [path for path in found if not path.exists()]


async def _remove(client: EngineClient, label: str, chosen: Callable[[Mapping[str, str] | None], bool]) -> list[str]:
    removed: list[str] = []
    filters = json.dumps({"label": [label]})
    for container in await client.ask("GET", "/containers/json", all="1", filters=filters) or ():
        if chosen(container.get("Labels")):
            await remove_container(client, container["Id"])
            removed.append(f"container {(container.get('Names') or [container['Id'][:12]])[0].lstrip('/')}")
    volumes: dict[str, Any] = await client.ask("GET", "/volumes", filters=filters) or {}
    for volume in volumes.get("Volumes") or ():
        if chosen(volume.get("Labels")):
            with suppress(EngineError):  # somebody else is at it, or it is still in use
                await client.ask("DELETE", f"/volumes/{volume['Name']}", force="1")
                removed.append(f"volume {volume['Name']}")
    return removed


async def remove_container(client: EngineClient, container: str) -> None:
    """Kill and remove a container; one that is gone, or going, is waited for."""
    try:
        await client.ask("DELETE", f"/containers/{container}", force="1", v="1")
    except EngineError as error:
        if error.status == 409:
            with suppress(EngineError):
                await client.ask("POST", f"/containers/{container}/wait", condition="removed")
        elif error.status != 404:
            raise
