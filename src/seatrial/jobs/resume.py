"""Continues a job: what is left of it, what is put aside to be run again, and which differences forbid to go on.

`prepare_resume` is for jobs of `seatrial run`, `prepare_rollouts` for those of an environment, new ones included.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from seatrial.errors import JobError
from seatrial.jobs.checks import changed_agents, check_images, check_variables, with_locked_agents
from seatrial.jobs.plan import plan_rest
from seatrial.jobs.prepare import (
    PreparedJob,
    TasksOnDemand,
    check_spec,
    lock_task,
    make_job_file,
    with_named_upstream,
    with_whole_paths,
)
from seatrial.jobs.select import choose_tasks, left_out_notices, select_tasks
from seatrial.jobs.trust import require_own
from seatrial.model.base import StrictModel
from seatrial.model.job import (
    JobSpec,
    LeftOut,
    LockedTask,
    ModelOptions,
    TrialOptions,
)
from seatrial.model.loaded_task import Task
from seatrial.model.record import NEVER_RAN
from seatrial.store.files import JOB
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.store.records import Census, Uncounted
from seatrial.tasks.layout import digest_folder
from seatrial.tasks.load import read_folder
from seatrial.tasks.outline import TaskOutline

_DRIVEN_ELSEWHERE = {
    "environment": "these are rollouts of an environment; only a program with it can go on with them: "
    "evaluate(…, save_to=FOLDER, resume=True)",
    "import": "was imported, and only the program that ran it can go on with it; import its results again then",
}
"""Why a job of another driver than `seatrial run` cannot be resumed here."""


def prepare_resume(
    folder: Path,
    *,
    spec: JobSpec | None = None,
    extend: bool = False,
    retry_failed: bool = False,
    retry_warned: bool = False,
    trust_job: bool = False,
) -> PreparedJob:
    """The rest of a job. Without a spec it is the stored one; with one, it must mean the same, or more with `extend`.

    `retry_failed` has trials that the machinery failed run again, `retry_warned` all whose agent never really ran,
    whatever their reward. Only tasks with trials left are loaded. Raises
    JobError that lists every difference when the spec or a task is not what it was, and one that lists what the job
    does when somebody else made it: `trust_job` is the user's word for all of that, and is remembered.
    """
    store = JobStore.open(folder)
    if store.file.driver != "job":
        raise JobError(f"{folder}: {_DRIVEN_ELSEWHERE[store.file.driver]}")
    if not trust_job:
        require_own(store)
    elif not store.is_own:
        store.make_own()
    notices: list[str] = []
    if spec is not None:
        notices = _take_over(store, with_named_upstream(with_locked_agents(with_whole_paths(spec))), extend=extend)
    if retry_failed:
        notices += set_failures_aside(store)
    if retry_warned:
        notices += set_warned_aside(store)
    census = store.census()
    trials = plan_rest(store.file, census.taken)
    needed = {plan.task_id for plan in trials}
    tasks = _load_locked(folder, [task for task in store.file.tasks if task.id in needed])
    if trials:
        spec = store.file.spec
        check_spec(spec)
        refuse_differences(folder, changed_agents({plan.agent.title: plan.agent for plan in trials}.values()))
        check_images(tasks.values(), spec.trial)
        configs = {task.id: task.config for task in tasks.values()}
        left_out = store.file.left_out
        notices += check_variables(configs, spec.agents, spec.trial, spec.model.upstream, left_out=left_out)
    notices += set_uncounted_aside(store, census)
    return PreparedJob(store, trials, TasksOnDemand(tasks), notices, census.entries)


def _take_over(store: JobStore, spec: JobSpec, *, extend: bool) -> list[str]:
    """Make the given spec the job's own if it may be. Returns what the user should know."""
    old = store.file
    more = extensions(old.spec, spec)
    refuse_differences(store.path, compare_specs(old.spec, spec))
    if not more:
        # How it is carried out is this run's business only, so it is not written down.
        store.file = old.model_copy(update={"spec": spec})
        return []
    if not extend:
        refuse_differences(store.path, more, "add to the job by `--extend`, or resume without options")
    selection = select_tasks(spec, {Path(task.root): task.id for task in old.tasks})
    locked = {task.id: lock_task(task, selection.files.get(task.root)) for task in selection.tasks.values()}
    now = {task.id: locked[task.id].digest if task.id in locked else None for task in old.tasks}
    refuse_differences(store.path, changed_tasks(old.tasks, now))
    choice = choose_tasks(selection, spec, old)
    stays = [entry for entry in old.left_out if entry.agent is not None]
    left_out = (*stays, *selection.unreadable, *choice.left_out)
    added = extend_job(store, spec, (locked[task.id] for task in choice.fit), left_out)
    lines = [*more, *([f"new tasks: {added}"] if added else [])]
    return [*selection.notices, *(f"extended: {line}" for line in lines), *left_out_notices(choice.left_out)]


def _load_locked(folder: Path, locked: Sequence[LockedTask]) -> dict[str, TaskOutline]:
    tasks: dict[str, TaskOutline] = {}
    digests: dict[str, str | None] = {}
    for task in locked:
        found = read_folder(Path(task.root), task.id)
        if isinstance(found, TaskOutline):
            tasks[task.id] = found
            digests[task.id] = digest_folder(found.root)
        else:
            digests[task.id] = None
    refuse_differences(folder, changed_tasks(locked, digests))
    return tasks


# The job of an environment: its rollouts are trials, kept and resumed like those of `seatrial run`. What an environment
# says of them comes from the user's own program, so nothing else is to be checked.

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
    if newer := [found for found in store.census().uncounted if found.newer]:
        raise JobError(f"{folder}: {store.explain(newer[0])}; or {_ADVICE}")
    _take_over_rollouts(store, spec, locked)
    set_failures_aside(store)
    census = store.census()
    notices = set_uncounted_aside(store, census)
    trials = plan_rest(store.file, census.taken)
    return PreparedJob(store, trials, tasks, notices, census.entries)


def _take_over_rollouts(store: JobStore, spec: JobSpec, locked: Sequence[LockedTask]) -> None:
    old = store.file
    spec = spec.model_copy(update={"attempts": max(old.spec.attempts, spec.attempts)})
    now = {task.id: task.digest for task in locked}
    found = compare_specs(old.spec, spec) + changed_tasks(old.tasks, now)
    refuse_differences(store.path, found, _ADVICE, "evaluation")
    extend_job(store, spec, locked)


# What is left of a job, and what is put aside to be run again.

_NAMED = 20


def set_failures_aside(store: JobStore) -> list[str]:
    """Have the trials that the machinery failed run again. Returns what the user should know."""
    failed = [each.trial_id for each in _ours(store) if each.outcome in ("infrastructure_error", "cancelled")]
    if not failed:
        return ["the machine and the providers failed no trial, so none is run again"]
    _set_aside(store, failed)
    trials = "1 trial" if len(failed) == 1 else f"{len(failed)} trials"
    return [f"running again: {trials} that the machine or a provider failed"]


def set_warned_aside(store: JobStore) -> list[str]:
    """Have the trials run again whose agent never really ran. Returns what the user should know."""
    warned = [each.trial_id for each in _ours(store) if NEVER_RAN.intersection(each.warnings)]
    _set_aside(store, warned)
    if not warned:
        return ["the agent really ran in every finished trial, so none is run again"]
    trials = "1 trial" if len(warned) == 1 else f"{len(warned)} trials"
    return [f"running again: {trials} in which the agent never really ran"]


def _ours(store: JobStore) -> list[TrialEntry]:
    """The trials of which no newer version of Seatrial has made a later revision."""
    census = store.census()
    newer = census.newer
    return [entry for entry in census.entries if entry.trial_id not in newer]


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


# What is different from when a job was begun, and forbids to mix its results.


def refuse_differences(folder: Path, differences: Iterable[str], advice: str = "", what: str = "job") -> None:
    """Raise JobError with what is different from when the job began, if anything is."""
    lines = list(differences)
    if not lines:
        return
    advice = advice or "put it back as it was, or run a new job in another folder"
    listed = (f"  {line}" for line in lines)
    raise JobError("\n".join([f"{folder}: is not the same {what} any more:", *listed, advice]))


def compare_specs(old: JobSpec, new: JobSpec) -> list[str]:
    """What is different between two specs so that their results must not be mixed, one readable line each.

    How a job is carried out (`run`) does not matter, and what only adds to a job is told by `extensions`.
    """
    # Which unfit tasks there may be says nothing about what results mean.
    of_trials = [name for name in TrialOptions.model_fields if name != "unfit"]
    found = _compare(old, new, ("name",)) + _compare(old.trial, new.trial, of_trials, "trial.")
    found += _compare(old.model, new.model, ModelOptions.model_fields, "model.")
    if new.attempts < old.attempts:
        found.append(f"attempts: was {old.attempts}, is {new.attempts}, which is fewer")
    now = {agent.title: agent for agent in new.agents}
    for agent in old.agents:
        if agent.title not in now:
            found.append(f"agents: {agent.title!r} is not among them any more")
        else:
            fields = type(agent).model_fields
            found += _compare(agent, now[agent.title], fields, f"agents.{agent.title}.")
    return found


def extensions(old: JobSpec, new: JobSpec) -> list[str]:
    """What a new spec adds to a job, or may add: which tasks it chooses is known when they have been looked for."""
    found = _compare(old, new, ("tasks", "include", "exclude", "max_tasks"))
    if new.attempts > old.attempts:
        found.append(f"attempts: was {old.attempts}, is {new.attempts}")
    titles = {agent.title for agent in old.agents}
    return found + [f"agents: {agent.title!r} is new" for agent in new.agents if agent.title not in titles]


def _compare(old: StrictModel, new: StrictModel, fields: Iterable[str], prefix: str = "") -> list[str]:
    return [
        f"{prefix}{name}: was {_shown(before)}, is {_shown(after)}"
        for name in fields
        if (before := getattr(old, name)) != (after := getattr(new, name))
    ]


def _shown(value: object) -> str:
    if value is None or value in ((), {}):
        return "nothing"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else repr(value)


def changed_tasks(locked: Iterable[LockedTask], now: Mapping[str, str | None]) -> list[str]:
    """What happened to locked tasks, by their digests now: None for one that is gone. Others are not judged."""
    found = []
    for task in locked:
        digest = now.get(task.id, task.digest)
        if digest is None:
            found.append(f"task {task.id}: is not at {task.root} any more, or cannot be read as a task")
        elif digest != task.digest:
            found.append(f"task {task.id}: its files have changed (digest was {task.digest[:12]}, is {digest[:12]})")
    return found
