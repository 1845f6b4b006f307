"""What killed runs of our own sandboxes left: directories with files and mounts, and control groups."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.cgroups import BASE, Hierarchy
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.leftovers import Cleared, look_again
from seatrial.sandbox.runs import SANDBOXES, abandoned, state_root


async def clear_sandboxes() -> Cleared:
    """The directories of dead runs, and control groups, also of runs whose directory is gone already."""
    root, hierarchy = state_root(), Hierarchy.here()
    dead = list(abandoned(root, SANDBOXES))
    groups = _groups(hierarchy)
    orphans = orphans_among(groups, root)
    with suppress(HostUnsupportedError):
        async with EmbeddedBackend():  # entering clears away what is left of dead runs
            pass
    for run in orphans:
        with suppress(SandboxError):
            hierarchy.sweep(run)
    of_dead = [group for run in (*(path.name for path in dead), *orphans) for group in groups.get(run, ())]
    return look_again([*dead, *of_dead])


def orphans_among(groups: Mapping[str, list[Path]], root: Path) -> list[str]:
    """The dead runs of this user whose directory is gone, by the control groups of all runs on this machine."""
    return [run for run in groups if not (root / run).exists() and _is_left(run, groups[run])]


def _groups(hierarchy: Hierarchy) -> dict[str, list[Path]]:
    """The control groups of each run, in every hierarchy and wherever it was started."""
    found: dict[str, list[Path]] = {}
    for mount in hierarchy.mounts:
        for top, children, _ in os.walk(mount.parents[-1]):
            if Path(top).name == BASE:
                for run in children:
                    found.setdefault(run, []).append(Path(top, run))
    return found


def _is_left(run: str, groups: Iterable[Path]) -> bool:
    """Whether a run is ours and orphaned. One whose groups go while we look is not: somebody clears them away."""
    try:
        return _is_ours(groups) and _is_orphaned(run, groups)
    except OSError:
        return False


def _is_ours(groups: Iterable[Path]) -> bool:
    """Whether we may remove these groups; those of other users are theirs to clear away."""
    return os.geteuid() == 0 or all(group.stat().st_uid == os.geteuid() for group in groups)


def _is_orphaned(run: str, groups: Iterable[Path]) -> bool:
    """Whether a run without a directory is dead: its process is not there, and no process is in its groups."""
    pid = run.removeprefix(SANDBOXES).partition("-")[0]
    if not run.startswith(SANDBOXES) or not pid.isdigit() or Path(f"/proc/{pid}").exists():
        return False
    files = [Path(top, "cgroup.procs") for group in groups for top, _, _ in os.walk(group)]
    return not any(file.read_text().strip() for file in files)
