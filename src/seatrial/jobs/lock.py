"""The lock of a job: exactly which content of which task it is about."""

import datetime as dt
from collections.abc import Iterable
from importlib.metadata import version

from seatrial.model.job import Driver, JobFile, JobSpec, LeftOut, LockedTask
from seatrial.model.task import Task
from seatrial.store.job_file import new_job_id
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.labels import labels_of
from seatrial.tasks.layout import TaskFiles
from seatrial.tasks.outline import TaskOutline


def lock_task(task: Task | TaskOutline, files: TaskFiles | None = None) -> LockedTask:
    """A task with the digest of its folder as it is now; `files` are those just found there."""
    try:
        digest = digest_folder(task.root, files)
    except FileNotFoundError:  # such as what an editor keeps there for a moment
        digest = digest_folder(task.root)
    return LockedTask(id=task.id, name=task.name, root=str(task.root), digest=digest, labels=labels_of(task.config))


def make_job_file(
    spec: JobSpec,
    tasks: Iterable[LockedTask],
    left_out: Iterable[LeftOut] = (),
    driver: Driver = "job",
) -> JobFile:
    """What is stored of a job that begins now."""
    return JobFile(
        seatrial_version=version("seatrial"),
        created_at=dt.datetime.now(dt.UTC),
        spec=spec,
        tasks=tuple(tasks),
        left_out=tuple(left_out),
        driver=driver,
        id=new_job_id(),
    )
