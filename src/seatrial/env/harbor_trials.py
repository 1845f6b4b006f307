"""Rollouts of HarborEnv as trials: which trial a row is, the job that many are, and the place where one happens."""

import glob
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from seatrial.env.rows import Row
from seatrial.env.running import RunPlan
from seatrial.env.sandbox_settings import SandboxSettings
from seatrial.env.state import read_info
from seatrial.env.trial_workplace import model_options
from seatrial.errors import UsageError
from seatrial.images.choice import why_refused
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.model.task import Task
from seatrial.model.trial_ids import trial_id
from seatrial.tasks.digest import digest_folder

if TYPE_CHECKING:  # everything a trial needs, which nobody needs before the first rollout
    from seatrial.trial.spec import TrialSpec

AGENT_NAME = "command"
USUAL_SECONDS = 3600.0


@dataclass(eq=False, slots=True)
class KnownTasks:
    """The tasks of an environment by their folders, with their digests; those of other rows are read when they come."""

    tasks: dict[str, Task]
    digests: dict[str, str] = field(default_factory=dict)

    def task_of(self, row: Mapping[str, Any]) -> Task:
        """The task of a row. Raises UsageError for a row that names none."""
        info = read_info(row)
        folder = info.get("task_dir") if isinstance(info, Mapping) else None
        if not isinstance(folder, str):
            raise UsageError("a row for HarborEnv needs info['task_dir'], the folder of its task")
        if folder not in self.tasks:
            from seatrial.tasks.load import load_task  # noqa: PLC0415 - only for rows of somebody's own

            self.tasks[folder] = load_task(folder)
        return self.tasks[folder]

    def digest(self, task: Task) -> str:
        """The digest of a task's folder."""
        folder = str(task.root)
        if folder not in self.digests:
            self.digests[folder] = digest_folder(task.root)
        return self.digests[folder]


@dataclass(frozen=True, slots=True)
class RolloutTrials:
    """What all rollouts of an environment have in common as trials."""

    known: KnownTasks
    agent: AgentOptions
    options: TrialOptions
    seconds: float | None

    def spec(self, row: Row, settings: SandboxSettings) -> "TrialSpec":
        """The trial that a rollout on a row is, as long as no hook says otherwise. Raises UsageError."""
        from seatrial.trial.spec import TrialSpec  # noqa: PLC0415 - much, and only for the first rollout

        task, name = self.known.task_of(row), str(row["task"])
        return TrialSpec(
            trial_id=f"{trial_id(name, AGENT_NAME, 1)}.{uuid.uuid4().hex}",
            task=self._adapted(task, settings).model_copy(update={"id": name}),
            task_digest=self.known.digest(task),
            agent=self.agent,
            options=self.options,
        )

    def _adapted(self, task: Task, settings: SandboxSettings) -> Task:
        """The task with what the environment says of time and resources instead of it."""
        config = task.config
        seconds = config.agent.timeout_sec or (USUAL_SECONDS if self.seconds is None else None)
        agent = config.agent.model_copy(update={"timeout_sec": seconds})
        limits = {name: value for name, value in settings.limits if value is not None}
        return _with_environment(_with_config(task, agent=agent), **limits)

    def job(self, plan: RunPlan, name: str, prices: str | None, max_turns: int) -> JobSpec:
        """The job that rollouts amount to."""
        tasks = {row["task"]: self.known.task_of(row) for row in plan.rows}
        model = model_options(plan.sampling_args, max_turns)
        return JobSpec(
            name=name,
            tasks=tuple(str(task.root) for task in tasks.values()),
            agents=(self.agent,),
            attempts=max(Counter(row["task"] for row in plan.rows).values()),
            trial=self.options,
            model=model.model_copy(update={"prices": prices}),
            run=RunOptions(concurrent=plan.workers, retries=plan.retries),
        )


def in_image(spec: "TrialSpec", docker_image: str, usual: str, row_image: str | None) -> "TrialSpec":
    """The trial in an image that a hook has chosen; `usual` is the one for tasks that name none."""
    task = spec.task
    of_strangers = (task.config.environment.docker_image, row_image)
    by_user = docker_image == usual or docker_image not in of_strangers
    built = task.layout.dockerfile is not None and docker_image == usual
    return replace(
        spec,
        task=task if built else _with_environment(task, docker_image=docker_image),  # built ones need no default
        options=_naming(spec.options, docker_image) if by_user else spec.options,
    )


def with_limits(spec: "TrialSpec", limits: Mapping[str, Any]) -> "TrialSpec":
    """The trial with limits of its own."""
    return replace(spec, task=_with_environment(spec.task, **limits)) if limits else spec


def _with_config(task: Task, **changes: Any) -> Task:
    return task.model_copy(update={"config": task.config.model_copy(update=changes)})


def _with_environment(task: Task, **changes: Any) -> Task:
    return _with_config(task, environment=task.config.environment.model_copy(update=changes))


def _naming(options: TrialOptions, image: str) -> TrialOptions:
    """The options for an image that the user's own program names: it may be a folder, which a task's may not."""
    if not why_refused(image):
        return options
    return options.model_copy(update={"image_map": {**options.image_map, glob.escape(image): image}})
