"""The task's own folder, as far as it is still what it was when the job began: what it asks for, and what it brought.

A job may be a stranger's and name any folder. It must hold exactly what the job says before any of it is shown.
"""

import os
from functools import lru_cache
from pathlib import Path, PurePosixPath

from seatrial.errors import SeatrialError
from seatrial.model.job import LockedTask
from seatrial.model.task import Task
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import walk
from seatrial.tasks.load import load_task
from seatrial.tasks.toml import TASK_TOML
from seatrial.view.rendering.bounded import BoundedContent, read_bounded
from seatrial.view.trial.opened import OpenedTrial

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


def declared_outputs(trial: OpenedTrial) -> frozenset[str]:
    """Where the task expects its output, as far as its folder still says so."""
    task = unchanged_task(trial.task)
    specs = [task.output, *(step.output for step in task.steps)] if task else []
    return frozenset(spec.path for spec in specs if spec.path)


def staged_original(task: Task, path: str) -> BoundedContent | None:
    """A file that a task put into the working directory, as it was before the agent came; None for any other."""
    if not PurePosixPath(path).is_relative_to(task.workdir):
        return None
    below = PurePosixPath(path).relative_to(task.workdir)
    steps = [f"steps/{step.spec.name}/workdir" for step in reversed(task.steps)]
    for place in (*steps, *(("environment",) if task.layout.environment_files else ())):
        try:
            return read_bounded(Path(place, below), task.root)
        except SeatrialError:
            continue
    return None


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
