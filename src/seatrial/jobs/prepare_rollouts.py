"""The job of an environment: its rollouts are trials, kept and gone on with like those of `seatrial run`.

What an environment says about them comes from the user's own program, so nothing else is to be checked.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.errors import JobError
from seatrial.jobs.continuing import (
    extend_job,
    plan_rest,
    refuse_differences,
    set_failures_aside,
    set_uncounted_aside,
)
from seatrial.jobs.lock import make_job_file
from seatrial.jobs.prepare import PreparedJob
from seatrial.jobs.resume import changed_tasks, compare_specs
from seatrial.model.job import JobSpec, LockedTask
from seatrial.model.task import Task
from seatrial.store.job_mark import JOB
from seatrial.store.job_store import JobStore

_ADVICE = "save to another folder"


def prepare_rollouts(
    folder: Path, spec: JobSpec, tasks: Mapping[str, Task], locked: Sequence[LockedTask], *, resume: bool
) -> PreparedJob:
    """A new job of rollouts in a new folder; with `resume`, the rest of one that is there, and more tasks or attempts.

    What the machinery failed is run again then. Raises JobError when the folder is taken by something else, and one
    that lists every difference when the spec or a task is not what it was.
    """
    if not (resume and (folder / JOB).exists()):
        store = JobStore.create(folder, make_job_file(spec, locked, driver="environment"))
        return PreparedJob(store, plan_rest(store.file), tasks, is_new=True)
    store = JobStore.open(folder)
    if store.file.driver != "environment":
        what = "an imported job" if store.file.driver == "import" else "a job of `seatrial run`"
        raise JobError(f"{folder}: holds {what}, expected rollouts; {_ADVICE}")
    _take_over(store, spec, locked)
    set_failures_aside(store)
    census = store.census()
    notices = set_uncounted_aside(store, census)
    trials = plan_rest(store.file, {entry.trial_id for entry in census.entries})
    return PreparedJob(store, trials, tasks, notices, census.entries)


def _take_over(store: JobStore, spec: JobSpec, locked: Sequence[LockedTask]) -> None:
    old = store.file
    spec = spec.model_copy(update={"attempts": max(old.spec.attempts, spec.attempts)})
    now = {task.id: task.digest for task in locked}
    found = compare_specs(old.spec, spec) + changed_tasks(old.tasks, now)
    refuse_differences(store.path, found, _ADVICE, "evaluation")
    extend_job(store, spec, locked)
