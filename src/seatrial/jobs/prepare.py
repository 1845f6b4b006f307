"""From what was asked for to a job that can be carried out: a new one, or one that is resumed.

`prepare_job`, `prepare_resume` and, for rollouts of an environment, `prepare_rollouts` check all that can be checked
before anything starts, and make or change the job's folder. Which tasks a job has is chosen in `select.py`; the single
checks are in `checks.py`. Nothing here starts a sandbox.
"""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from seatrial.agents.api import make_agents
from seatrial.backends.named import check_backend
from seatrial.errors import JobError
from seatrial.jobs.checks import agent_notices, check_images, check_variables, with_locked_agents
from seatrial.jobs.engine import check_engine
from seatrial.jobs.machinery import check_model, check_verifier_model, model_notices, with_upstream
from seatrial.jobs.plan import TrialPlan, plan_rest
from seatrial.jobs.select import choose_tasks, left_out_notices, nothing_to_run, select_tasks
from seatrial.model.job import (
    Driver,
    JobFile,
    JobSpec,
    LeftOut,
    LockedTask,
)
from seatrial.model.loaded_task import Task
from seatrial.model.task import TaskConfig
from seatrial.sandbox.trust import client_trust
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore, ensure_free, new_job_id
from seatrial.store.seal import key_path
from seatrial.tasks.layout import TaskFiles, digest_folder
from seatrial.tasks.load import labels_of
from seatrial.tasks.outline import TaskOutline


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
    """A job with the trials that are to be run, the tasks they need, and what the user should know."""

    store: JobStore
    trials: list[TrialPlan]
    tasks: Mapping[str, Task]
    notices: list[str] = field(default_factory=list)
    earlier: Sequence[TrialEntry] = ()
    """The trials that were finished before."""
    is_new: bool = False
    """Whether it has just been made."""

    def needed_tasks(self) -> Iterator[Task]:
        """The tasks of the trials that are to be run, each once."""
        return (self.tasks[task_id] for task_id in dict.fromkeys(plan.task_id for plan in self.trials))


def prepare_job(spec: JobSpec, folder: Path) -> PreparedJob:
    """A new job in a new folder, with everything checked that can be before anything starts.

    Raises UsageError: the folder is taken, a path holds no task, nothing is chosen or can be run, lint finds errors in
    a task, an agent or backend does not exist.
    """
    ensure_free(folder)
    asked = with_locked_agents(with_whole_paths(spec))
    spec = with_named_upstream(asked)
    check_spec(spec)
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
    notices = [
        *selection.notices,
        *left_out_notices(choice.left_out),
        *_image_notices(configs.values(), spec),
        *denied,
        *agent_notices(spec.agents, choice.needed, spec.trial),
        *_upstream_notices(asked, spec),
        *model_notices(spec),
        *_seal_notices(store),
    ]
    return PreparedJob(store, plan_rest(store.file), TasksOnDemand(selection.tasks), notices, is_new=True)


def with_named_upstream(spec: JobSpec) -> JobSpec:
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


def check_spec(spec: JobSpec) -> None:
    """Raise UsageError for what no job can be done with, whatever its tasks are."""
    check_backend(spec.trial.backend)
    check_engine(spec.run)
    if spec.trial.ca_file:
        client_trust(spec.trial.ca_file)
    check_model(spec.model, spec.agents)
    check_verifier_model(spec.trial)
    make_agents(spec.agents)


def with_whole_paths(spec: JobSpec) -> JobSpec:
    """The spec with paths that mean the same wherever one stands when the job is resumed."""
    return spec.model_copy(update={"tasks": tuple(str(Path(path).absolute()) for path in spec.tasks)})


# The lock of a job: exactly which content of which task it is about.


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
    return JobFile(
        seatrial_version=version("seatrial"),
        created_at=dt.datetime.now(dt.UTC),
        spec=spec,
        tasks=tuple(tasks),
        left_out=tuple(left_out),
        driver=driver,
        id=new_job_id(),
    )
