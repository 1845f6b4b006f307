"""The lock of a job: exactly which content of which task it is about."""

import datetime as dt
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path

from seatrial.model.job import JobFile, JobSpec, LeftOut, LockedTask
from seatrial.model.task import Task
from seatrial.store.job_file import new_job_id
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import TaskFiles
from seatrial.tasks.outline import TaskOutline


def lock_task(task: Task | TaskOutline, files: TaskFiles | None = None) -> LockedTask:
    """A task with the digest of its folder as it is now; `files` are those just found there."""
    try:
        digest = digest_folder(task.root, files)
    except FileNotFoundError:  # such as what an editor keeps there for a moment
        digest = digest_folder(task.root)
    return LockedTask(id=task.id, name=task.name, root=str(task.root), digest=digest)


def make_job_file(
    spec: JobSpec,
    tasks: Iterable[Task | TaskOutline],
    files: Mapping[Path, TaskFiles] | None = None,
    left_out: Iterable[LeftOut] = (),
) -> JobFile:
    """What is stored of a job that begins now; `files` are those just found in the folders of its tasks."""
    listed = files or {}
    return JobFile(
        seatrial_version=version("seatrial"),
        created_at=dt.datetime.now(dt.UTC),
        spec=spec,
        tasks=tuple(lock_task(task, listed.get(task.root)) for task in tasks),
        left_out=tuple(left_out),
        id=new_job_id(),
    )
