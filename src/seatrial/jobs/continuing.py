"""Going on with a job: what is left of it, what is put aside to be run again, and what forbids it.

`seatrial resume` and environments that evaluate into a folder both go on by these.
"""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from seatrial.errors import JobError
from seatrial.jobs.plan import TrialPlan, plan_trials
from seatrial.model.job import JobFile, JobSpec, LeftOut, LockedTask
from seatrial.model.record import NEVER_RAN
from seatrial.store.census import Census, Uncounted
from seatrial.store.job_store import JobStore

_NAMED = 20


def plan_rest(file: JobFile, finished: Collection[str] = ()) -> list[TrialPlan]:
    """All trials of a job but those that are finished."""
    spec = file.spec
    without = {(entry.task, entry.agent) for entry in file.left_out if entry.agent is not None}
    ids = [task.id for task in file.tasks]
    return plan_trials(ids, spec.agents, spec.attempts, spec.run.shuffle_seed, without=without, finished=finished)


def set_failures_aside(store: JobStore) -> list[str]:
    """Have the trials that the machinery failed run again. Returns what the user should know."""
    failed = [entry.trial_id for entry in store.entries() if entry.outcome in ("infrastructure_error", "cancelled")]
    if not failed:
        return ["the machine and the providers failed no trial, so none is run again"]
    _set_aside(store, failed)
    trials = "1 trial" if len(failed) == 1 else f"{len(failed)} trials"
    return [f"running again: {trials} that the machine or a provider failed"]


def set_warned_aside(store: JobStore) -> list[str]:
    """Have the trials run again whose agent never really ran. Returns what the user should know."""
    warned = [entry.trial_id for entry in store.entries() if NEVER_RAN.intersection(entry.warnings)]
    _set_aside(store, warned)
    if not warned:
        return ["the agent really ran in every finished trial, so none is run again"]
    trials = "1 trial" if len(warned) == 1 else f"{len(warned)} trials"
    return [f"running again: {trials} in which the agent never really ran"]


def _set_aside(store: JobStore, trial_ids: Sequence[str]) -> None:
    with store.lock():
        for trial_id in trial_ids:
            store.set_aside(trial_id)


def set_uncounted_aside(store: JobStore, census: Census) -> list[str]:
    """Make room for the trials that have to be run again. Returns what the user should know."""
    if again := [found.trial_id for found in census.uncounted if found.planned]:
        with store.lock():
            store.set_uncounted_aside(again)
    named, more = census.uncounted[:_NAMED], len(census.uncounted) - _NAMED
    lines = [_uncounted_notice(found) for found in named]
    return [*lines, f"{more:,} more trials do not count, and are treated alike"] if more > 0 else lines


def _uncounted_notice(found: Uncounted) -> str:
    if found.revision:
        return f"revision {found.revision} of {found.trial_id} does not count: {found.reason}; it is left alone"
    does = "what is there is kept in damaged/, and the trial is run again" if found.planned else "it is left alone"
    return f"{found.trial_id} does not count: {found.reason}; {does}"


def extend_job(
    store: JobStore, spec: JobSpec, tasks: Iterable[LockedTask], left_out: Sequence[LeftOut] | None = None
) -> int:
    """Make a spec the job's own, add the tasks that are new to it, and return how many those are.

    What is left out stays as it is unless it is given. Raises JobError when another run is at the job.
    """
    old = store.file
    known = {task.id for task in old.tasks}
    added = tuple(task for task in tasks if task.id not in known)
    absent = old.left_out if left_out is None else tuple(left_out)
    with store.lock():
        store.update(old.model_copy(update={"spec": spec, "tasks": (*old.tasks, *added), "left_out": absent}))
    return len(added)


def refuse_differences(folder: Path, differences: Iterable[str], advice: str = "", what: str = "job") -> None:
    """Raise JobError with what is different from when the job began, if anything is."""
    lines = list(differences)
    if not lines:
        return
    advice = advice or "put it back as it was, or run a new job in another folder"
    listed = (f"  {line}" for line in lines)
    raise JobError("\n".join([f"{folder}: is not the same {what} any more:", *listed, advice]))
