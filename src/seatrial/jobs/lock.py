"""The lock of a job: exactly which content of which task it is about."""

import datetime as dt
from collections.abc import Iterable
from importlib.metadata import version

from seatrial.model.job import JobFile, JobSpec, LockedTask
from seatrial.model.task import Task
from seatrial.tasks.digest import digest_folder


def lock_task(task: Task) -> LockedTask:
    """A task with the digest of its folder as it is now."""
    return LockedTask(id=task.id, name=task.name, root=str(task.root), digest=digest_folder(task.root))


def make_job_file(spec: JobSpec, tasks: Iterable[Task]) -> JobFile:
    """What is stored of a job that begins now."""
    return JobFile(
        seatrial_version=version("seatrial"),
        created_at=dt.datetime.now(dt.UTC),
        spec=spec,
        tasks=tuple(lock_task(task) for task in tasks),
    )
