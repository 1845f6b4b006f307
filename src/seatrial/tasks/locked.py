"""The folder of a task as a job has locked it.

A job may be a stranger's and name any folder, so that the folder must hold exactly what the job says before anything of
it is shown or used.
"""

import os
from functools import lru_cache
from pathlib import Path

from seatrial.errors import SeatrialError
from seatrial.model.job import LockedTask
from seatrial.model.loaded_task import Task
from seatrial.tasks.layout import digest_folder, walk
from seatrial.tasks.load import load_task
from seatrial.tasks.toml import TASK_TOML

_Stamp = tuple[tuple[str, int, int], ...]


def task_trouble(task: LockedTask) -> str:
    """Why a task's folder cannot be taken for what it was; empty if it is unchanged."""
    root = Path(task.root)
    if not task.root:
        return "The job was imported, and its task did not come with it."
    if not root.is_absolute() or not (root / TASK_TOML).is_file():
        return f"The task is no longer at {task.root}."
    try:
        unchanged = _digest(task.root, _stamp(task.root)) == task.digest
    except (OSError, SeatrialError) as error:
        return f"The task at {task.root} cannot be read: {error}"
    return "" if unchanged else f"The task at {task.root} has changed since the job began."


def unchanged_task(task: LockedTask | None) -> Task | None:
    """The task, if its folder is still what it was when the job began."""
    return None if task is None or task_trouble(task) else _loaded(task.root, task.digest)


@lru_cache(maxsize=64)
def _loaded(root: str, _digest: str) -> Task | None:
    try:
        return load_task(root)
    except SeatrialError:
        return None


@lru_cache(maxsize=64)
def _digest(root: str, _: _Stamp) -> str:
    return digest_folder(Path(root))


def _stamp(root: str) -> _Stamp:
    """What changes when a task's folder does, at a fraction of what a digest costs."""
    regular, links = walk(root)[:2]
    found = ((path, os.lstat(f"{root}/{path}")) for path in sorted({*regular, *links}))
    return tuple((path, status.st_size, status.st_mtime_ns) for path, status in found)
