"""What killed runs can leave on a machine, kind by kind: finding it, removing it, and saying what it was."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.cgroups import BASE, Hierarchy
from seatrial.sandbox.runs import SANDBOXES, abandoned, state_root
from seatrial.sandbox.scratch import sweep_scratch


@dataclass(frozen=True, slots=True)
class Cleared:
    """What has gone, and what is still there."""

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    def __add__(self, other: "Cleared") -> "Cleared":
        return Cleared((*self.removed, *other.removed), (*self.left, *other.left))


def _looked_at_again(paths: Iterable[Path]) -> Cleared:
    """Which of those paths have gone by now, and which have not."""
    known = list(paths)
    there = {path for path in known if path.exists()}
    return Cleared(
        tuple(str(path) for path in known if path not in there), tuple(str(path) for path in known if path in there)
    )


async def clear_sandboxes() -> Cleared:
    """The directories of dead runs, and control groups, also of runs whose directory is gone already."""
    root, hierarchy = state_root(), Hierarchy.here()
    dead = list(abandoned(root, SANDBOXES))
    groups = _groups(hierarchy)
    orphans = [run for run in groups if not (root / run).exists() and _is_orphaned(run, groups[run])]
    with suppress(HostUnsupportedError):
        async with EmbeddedBackend():  # entering clears away what is left of dead runs
            pass
    for run in orphans:
        with suppress(SandboxError):
            hierarchy.sweep(run)
    of_dead = [group for run in (*(path.name for path in dead), *orphans) for group in groups.get(run, ())]
    return _looked_at_again([*dead, *of_dead])


def _groups(hierarchy: Hierarchy) -> dict[str, list[Path]]:
    """The control groups of each run, in every hierarchy and wherever it was started."""
    found: dict[str, list[Path]] = {}
    for mount in hierarchy.mounts:
        for top, children, _ in os.walk(mount.parents[-1]):
            if Path(top).name == BASE:
                for run in children:
                    found.setdefault(run, []).append(Path(top, run))
    return found


def _is_orphaned(run: str, groups: Iterable[Path]) -> bool:
    """Whether a run without a directory is dead: its process is not there, and no process is in its groups."""
    pid = run.removeprefix(SANDBOXES).partition("-")[0]
    if not run.startswith(SANDBOXES) or not pid.isdigit() or Path(f"/proc/{pid}").exists():
        return False
    files = [Path(top, "cgroup.procs") for group in groups for top, _, _ in os.walk(group)]
    return not any(file.read_text().strip() for file in files)


async def clear_containers() -> Cleared:
    """Containers and volumes of the daemons that answer, and the directories of the runs they belonged to."""
    from seatrial.sandbox.engine.client import EngineClient  # noqa: PLC0415 - an HTTP client
    from seatrial.sandbox.engine.endpoint import Engine, find_endpoint  # noqa: PLC0415
    from seatrial.sandbox.engine.leftovers import clear_folders, sweep  # noqa: PLC0415

    removed: list[str] = []
    for engine in get_args(Engine):
        with suppress(HostUnsupportedError, SandboxError):  # no such daemon here
            async with EngineClient(find_endpoint(engine)) as client:
                removed += [f"{engine} {thing}" for thing in await sweep(client)]
    return Cleared((*removed, *map(str, clear_folders(state_root()))))


async def clear_scratch() -> Cleared:
    """Temporary files, and plain processes that were started in them."""
    return Cleared(tuple(map(str, await sweep_scratch())))


async def clear_images() -> Cleared:
    """What processes were unpacking or building when they were killed."""
    from seatrial.images.cache import cache_root  # noqa: PLC0415 - slow to import
    from seatrial.images.store import Store  # noqa: PLC0415

    sessions = cache_root() / "sessions"
    if not sessions.is_dir():
        return Cleared()
    dead = list(abandoned(sessions))
    await Store().close()  # which clears away what others left, too
    return _looked_at_again(dead)
