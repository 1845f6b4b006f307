"""From what was asked for to a job that can be carried out: a new one, or one that is gone on with."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.agents.api import make_agents
from seatrial.backends.named import check_backend
from seatrial.errors import JobError
from seatrial.jobs.agent_notices import agent_notices
from seatrial.jobs.agents import changed_agents, with_locked_agents
from seatrial.jobs.continuing import (
    extend_job,
    plan_rest,
    refuse_differences,
    set_failures_aside,
    set_uncounted_aside,
    set_warned_aside,
)
from seatrial.jobs.engine import check_engine
from seatrial.jobs.fitness import choose_tasks, left_out_notices, nothing_to_run
from seatrial.jobs.lock import lock_task, make_job_file
from seatrial.jobs.models import check_model, model_notices, with_upstream
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.resume import changed_tasks, compare_specs, extensions
from seatrial.jobs.select import select_tasks
from seatrial.jobs.strangers import check_images
from seatrial.jobs.trust import require_own
from seatrial.jobs.variables import check_variables
from seatrial.model.config import TaskConfig
from seatrial.model.job import JobSpec, LockedTask
from seatrial.model.task import Task
from seatrial.sandbox.ca_file import client_trust
from seatrial.store.index import TrialEntry
from seatrial.store.job_file import ensure_free
from seatrial.store.job_store import JobStore
from seatrial.store.seal import key_path
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.load import read_folder
from seatrial.tasks.outline import TaskOutline

_DRIVEN_ELSEWHERE = {
    "environment": "these are rollouts of an environment; only a program with it can go on with them: "
    "evaluate(…, save_to=FOLDER, resume=True)",
    "import": "was imported, and only the program that ran it can go on with it; import its results again then",
}
"""Why a job of another driver than `seatrial run` cannot be resumed here."""


class TasksOnDemand(Mapping[str, Task]):
    """Tasks by id. What one expects is found out when its first trial is about to start, and then kept."""

    def __init__(self, outlines: Mapping[str, TaskOutline]) -> None:
        self._outlines = outlines
        self._tasks: dict[str, Task] = {}

    def __getitem__(self, task_id: str) -> Task:
        if task_id not in self._tasks:
            self._tasks[task_id] = self._outlines[task_id].task()
        return self._tasks[task_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outlines)

    def __len__(self) -> int:
        return len(self._outlines)


@dataclass(frozen=True, slots=True)
class PreparedJob:
    """A job with the trials that are to be run, the tasks they need, and what the user should know.

    `earlier` are the trials that were finished before. A job that `is_new` has just been made.
    """

    store: JobStore
    trials: list[TrialPlan]
    tasks: Mapping[str, Task]
    notices: list[str] = field(default_factory=list)
    earlier: Sequence[TrialEntry] = ()
    is_new: bool = False

    def needed_tasks(self) -> Iterator[Task]:
        """The tasks of the trials that are to be run, each once."""
        return (self.tasks[task_id] for task_id in dict.fromkeys(plan.task_id for plan in self.trials))


def prepare_job(spec: JobSpec, folder: Path) -> PreparedJob:
    """A new job in a new folder, with everything checked that can be before anything starts.

    Raises UsageError: the folder is taken, a path holds no task, nothing is chosen or can be run, lint finds errors in
    a task, an agent or backend does not exist.
    """
    ensure_free(folder)
    asked = with_locked_agents(_with_whole_paths(spec))
    spec = _with_upstream(asked)
    check_backend(spec.trial.backend)
    check_engine(spec.run)
    _check_ca_file(spec)
    check_model(spec.model, spec.agents)
    make_agents(spec.agents)
    selection = select_tasks(spec)
    choice = choose_tasks(selection, spec)
    if not choice.needed:
        raise JobError(nothing_to_run(choice.left_out))
    configs = {task.id: task.config for task in choice.needed}
    check_images(choice.needed, spec.trial)
    denied = check_variables(configs, spec.agents, spec.trial, spec.model.upstream, left_out=choice.left_out)
    left_out = (*selection.unreadable, *choice.left_out)
    locked = (lock_task(task, selection.files.get(task.root)) for task in choice.fit)
    store = JobStore.create(folder, make_job_file(spec, locked, left_out))
    told = [*selection.notices, *left_out_notices(choice.left_out), *_image_notices(configs.values(), spec)]
    about_agents = agent_notices(spec.agents, choice.needed, spec.trial)
    notices = [
        *told,
        *denied,
        *about_agents,
        *_upstream_notices(asked, spec),
        *model_notices(spec),
        *_seal_notices(store),
    ]
    return PreparedJob(store, plan_rest(store.file), TasksOnDemand(selection.tasks), notices, is_new=True)


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
        notices = _take_over(store, _with_upstream(with_locked_agents(_with_whole_paths(spec))), extend=extend)
    if retry_failed:
        notices += set_failures_aside(store)
    if retry_warned:
        notices += set_warned_aside(store)
    census = store.census()
    trials = plan_rest(store.file, {entry.trial_id for entry in census.entries})
    needed = {plan.task_id for plan in trials}
    tasks = _load_locked(folder, [task for task in store.file.tasks if task.id in needed])
    if trials:
        spec = store.file.spec
        check_backend(spec.trial.backend)
        check_engine(spec.run)
        _check_ca_file(spec)
        check_model(spec.model, spec.agents)
        make_agents(spec.agents)
        refuse_differences(folder, changed_agents({plan.agent.title: plan.agent for plan in trials}.values()))
        check_images(tasks.values(), spec.trial)
        configs = {task.id: task.config for task in tasks.values()}
        left_out = store.file.left_out
        notices += check_variables(configs, spec.agents, spec.trial, spec.model.upstream, left_out=left_out)
    notices += set_uncounted_aside(store, census)
    return PreparedJob(store, trials, TasksOnDemand(tasks), notices, census.entries)


def _with_upstream(spec: JobSpec) -> JobSpec:
    return spec.model_copy(update={"model": with_upstream(spec.model, spec.agents)})


def _upstream_notices(asked: JobSpec, spec: JobSpec) -> list[str]:
    if asked.model.upstream == spec.model.upstream:
        return []
    return [f"model calls go to {spec.model.upstream}, by the name of the model; --upstream says otherwise"]


def _seal_notices(store: JobStore) -> list[str]:
    if store.is_own:
        return []
    try:
        key_path()
    except OSError as error:
        why = str(error)
    else:
        why = "no private file can be written"
    return [f"the job cannot be marked as yours ({why}); to resume it takes --trust-job"]


def _image_notices(configs: Iterable[TaskConfig], spec: JobSpec) -> list[str]:
    """What runs elsewhere than its author meant, so that nobody takes the results for what they are not."""
    if spec.trial.image != "host":
        return []
    images = {config.environment.docker_image for config in configs} - {None}
    if not images:
        return []
    named = ", ".join(sorted(filter(None, images))[:3]) + (", …" if len(images) > 3 else "")
    image = "image" if len(images) == 1 else "images"
    return [f"tasks name the {image} {named}; they run on this machine's own system, which is not reproducible"]


def _check_ca_file(spec: JobSpec) -> None:
    if spec.trial.ca_file:
        client_trust(spec.trial.ca_file)


def _with_whole_paths(spec: JobSpec) -> JobSpec:
    """The spec with paths that mean the same wherever one stands when the job is resumed."""
    return spec.model_copy(update={"tasks": tuple(str(Path(path).absolute()) for path in spec.tasks)})


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
