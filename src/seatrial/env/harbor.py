"""HarborEnv: rollouts on Harbor tasks. Each is a trial like those of jobs, with the environment's hooks in between."""

import glob
import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seatrial.agents.environ import INSTRUCTION_PATH, TASK_DIR, tool_variables
from seatrial.env.cli_agent import USUAL_SECONDS, CliAgentEnv
from seatrial.env.decorators import cleanup
from seatrial.env.harbor_dataset import as_hf_dataset, load_tasks, read_toml, task_rows
from seatrial.env.hooks import settled
from seatrial.env.rows import Row
from seatrial.env.rubric import Rubric, as_reward
from seatrial.env.running import RunPlan
from seatrial.env.sandbox_settings import DEFAULT_IMAGE
from seatrial.env.state import State, read_info, rollout_of
from seatrial.env.trial_workplace import RolloutAgent, TrialWorkplace, judged_by_hook, model_options
from seatrial.env.workplace import Workplace
from seatrial.errors import HookError, SeatrialError, UsageError
from seatrial.images.choice import why_refused
from seatrial.images.resolver import ResolvedImage
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.model.record import AgentRef
from seatrial.model.task import Task
from seatrial.model.trial_ids import trial_id
from seatrial.tasks.digest import digest_folder

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

    from seatrial.gateway.access import ModelAccess
    from seatrial.trial.spec import TrialSpec

_AGENT_NAME = "command"

_log = logging.getLogger(__name__)


class HarborEnv(CliAgentEnv):
    """Runs `run_command` on each task of `dataset_path`, or on those that `tasks` names, and lets its tests judge it.

    The agent finds instruction.md and task.toml in /task and works in `agent_workdir`. Only after it has ended come
    tests/ and solution/, for the verifier. `docker_image` is for tasks that name none. Further arguments are those of
    CliAgentEnv; without `timeout_seconds` an agent has the time of its task, or an hour. What is said about resources
    goes before what the task says. `allow_env` are names of variables here that task.toml may take by `${NAME}`.
    `trial_options` may be replaced: they say how rollouts are isolated and judged.

    Raises DatasetNotFoundError or TaskFormatError for tasks that are not there or cannot be read.
    """

    rollouts_are_trials = True

    def __init__(
        self,
        run_command: str,
        dataset_path: str | Path,
        tasks: list[str] | None = None,
        agent_workdir: str = "/app",
        docker_image: str = DEFAULT_IMAGE,
        **kwargs: Any,
    ) -> None:
        self.dataset_path = Path(dataset_path)
        self.task_names = tasks
        self.agent_workdir = agent_workdir
        self._tasks = {str(task.root): task for task in load_tasks(self.dataset_path, tasks)}
        self._digests: dict[str, str] = {}
        given: Rubric | None = kwargs.pop("rubric", None)
        allow_env: Iterable[str] = kwargs.pop("allow_env", ())
        kwargs.setdefault("timeout_seconds", None)
        kwargs.setdefault("dataset", self._rows_to_use())
        super().__init__(run_command, docker_image=docker_image, rubric=Rubric([self.harbor_reward]), **kwargs)
        if given is not None:
            self.add_rubric(given)
        settings = self._sandboxes.settings
        self.trial_options = TrialOptions(
            image=settings.image,
            image_map=dict(settings.policy.mapped),
            image_fallback=settings.image_fallback,
            enforcement=settings.enforcement,
            network="none" if settings.network == "none" else "task",
            reward_policy="text_first",
            solution="staged",
            allow_env=tuple(allow_env),
        )

    def load_harbor_dataset(self) -> "Dataset":
        """The tasks as a HuggingFace Dataset: example_id, task, prompt, and info with task_dir, docker_image, config.

        Raises UsageError where the package `datasets` is not installed; only this method needs it.
        """
        return as_hf_dataset(task_rows(self._tasks.values()))

    def _rows_to_use(self) -> Any:
        """What rollouts are made on: the tasks, or what an override of `load_harbor_dataset` makes of them."""
        if type(self).load_harbor_dataset is not HarborEnv.load_harbor_dataset:
            return self.load_harbor_dataset
        return self._own_rows

    def _own_rows(self) -> list[Row]:
        return task_rows(self._tasks.values())

    async def get_docker_image(self, state: State) -> str:
        """The image that the task names, else the one for all."""
        return state["info"].get("docker_image") or self.docker_image

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The variables of every agent, and those by which it finds its task."""
        variables = await super().build_env_vars(state)
        place = rollout_of(state).place
        task = place.spec.task if place else self._task_of(state)
        named = {
            "HARBOR_TASK_NAME": state["task"],
            "HARBOR_TASK_DIR": TASK_DIR,
            "HARBOR_INSTRUCTION_PATH": INSTRUCTION_PATH,
            "AGENT_WORKDIR": self.agent_workdir,
        }
        return {**variables, **named, **tool_variables(task)}

    async def setup_state(self, state: State) -> State | None:
        """Make the task's sandbox, furnish it, and start the agent."""
        place = rollout_of(state).place
        task = place.spec.task if place else self._task_of(state)
        state["harbor_config"], state["harbor_task_dir"] = read_toml(task), str(task.root)
        return await super().setup_state(state)

    async def post_sandbox_setup(self, state: State) -> None:
        """Put instruction.md and task.toml in place. An override that uploads an agent calls this one first."""
        await self._workplace(state).set_up()

    async def post_rollout(self, state: State) -> None:
        """See the agent to its end, then judge what it left."""
        await super().post_rollout(state)
        agent = rollout_of(state).agent
        if state["error"] is None and agent is not None and agent.run is not None:
            await self._workplace(state).agent_ended(agent.run.result())
            state["reward"] = await self._reward(state)
            if state["error"] is None:
                await self._workplace(state).ensure_unspoiled(state["reward"])

    async def _reward(self, state: State) -> float:
        """What `compute_reward` gives; 0.0 with the reason in the evaluation when it fails by itself."""
        try:
            return as_reward(await settled(self.compute_reward(state)))
        except SeatrialError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a hook does is no concern of the others
            reason = f"compute_reward failed: {type(error).__name__}: {error}"
            _log.exception("rollout of %s: compute_reward failed", state["task"])
            state["evaluation"] = self._workplace(state).evaluation = judged_by_hook(0.0, reason)
            return 0.0

    async def compute_reward(self, state: State) -> float:
        """Run the task's tests and read the reward they wrote: from reward.txt, else from reward.json.

        Whatever else they did is 0.0, with the reason in `state["evaluation"]`. When the machinery fails,
        `state["error"]` says so.
        """
        try:
            evaluation = await self._workplace(state).judge()
        except SeatrialError as error:
            state["error"] = state["error"] or error
            return 0.0
        state["evaluation"] = evaluation
        if not evaluation.validity.verifier_completed:
            _log.warning("rollout of %s: %s", state["task"], "; ".join(evaluation.validity.errors))
        return evaluation.reward

    async def harbor_reward(self, state: State) -> float:
        """The reward that `compute_reward` gave."""
        return float(state["reward"])

    @cleanup(priority=50)
    async def keep_record(self, state: State) -> None:
        """Leave the trial's record on the state, before the sandbox is gone. The reward of one that failed is 0.0."""
        error, rollout = state["error"], rollout_of(state)
        if error is not None:
            state["reward"] = 0.0
        if rollout.trial is not None and state["reward"] is not None:
            rollout.record = await rollout.trial.record(error, state["reward"])
            if rollout.place:  # else nothing of it stays
                from seatrial.trial.trajectories import keep_trajectories  # noqa: PLC0415 - as below

                await keep_trajectories(rollout.trial.trial.log, rollout.trial.folder)

    async def _make_workplace(self, state: State, docker_image: str, model: "ModelAccess") -> Workplace:
        # Everything a trial needs, a third of what there is to import: nobody needs it before the first rollout.
        from seatrial.trial.events import unobserved  # noqa: PLC0415
        from seatrial.trial.log import TrialLog  # noqa: PLC0415
        from seatrial.trial.machinery import Machinery  # noqa: PLC0415
        from seatrial.trial.place import agent_image  # noqa: PLC0415
        from seatrial.trial.rounds import Round  # noqa: PLC0415
        from seatrial.trial.steps import open_trial  # noqa: PLC0415

        shared = await self._sandboxes.machinery(state)
        spec = self._spec(state, docker_image)
        agent = RolloutAgent(AgentRef(name=_AGENT_NAME, command=self.run_command, model=state["model"]))
        machinery = Machinery(shared.backend, shared.images, model, {_AGENT_NAME: agent})
        log = TrialLog(spec, unobserved)
        opening = open_trial(spec, machinery, self._folder(state), log)
        rollout = rollout_of(state)
        trial = await rollout.resources.enter_async_context(opening)
        turn = trial.begin(Round(spec.task))
        workplace = rollout.trial = TrialWorkplace(trial, turn, self.agent_workdir)
        used = ResolvedImage(trial.place.sandbox.image, trial.place.image_from)
        self._sandboxes.note_image(state, agent_image(spec.task).title, used)
        await self._sandboxes.introduce(state, trial.sandbox, turn.network)
        return workplace

    def _spec(self, state: State, docker_image: str) -> "TrialSpec":
        """The trial of a rollout in an image that a hook has chosen."""
        place = rollout_of(state).place
        spec = place.spec if place else self.trial_spec(state, state["model"])
        of_strangers = (spec.task.config.environment.docker_image, state["info"].get("docker_image"))
        by_user = docker_image == self.docker_image or docker_image not in of_strangers
        built = spec.task.layout.dockerfile is not None and docker_image == self.docker_image
        return replace(
            spec,
            task=spec.task if built else _in_image(spec.task, docker_image),  # what is built needs no default image
            options=_naming(spec.options, docker_image) if by_user else spec.options,
        )

    def _adapted(self, task: Task) -> Task:
        """The task with what the environment says of time and resources instead of it."""
        config = task.config
        limits = {name: value for name, value in self._sandboxes.settings.limits if value is not None}
        environment = config.environment.model_copy(update=limits)
        seconds = config.agent.timeout_sec or (USUAL_SECONDS if self.timeout_seconds is None else None)
        agent = config.agent.model_copy(update={"timeout_sec": seconds})
        return task.model_copy(
            update={"config": config.model_copy(update={"environment": environment, "agent": agent})}
        )

    def _task_of(self, row: Mapping[str, Any]) -> Task:
        info = read_info(row)
        folder = info.get("task_dir") if isinstance(info, Mapping) else None
        if not isinstance(folder, str):
            raise UsageError("a row for HarborEnv needs info['task_dir'], the folder of its task")
        if folder not in self._tasks:
            from seatrial.tasks.load import load_task  # noqa: PLC0415 - only for rows of somebody's own

            self._tasks[folder] = load_task(folder)
        return self._tasks[folder]

    def _digest(self, task: Task) -> str:
        folder = str(task.root)
        if folder not in self._digests:
            self._digests[folder] = digest_folder(task.root)
        return self._digests[folder]

    def _workplace(self, state: State) -> TrialWorkplace:
        """The trial of a rollout. Raises HookError for one that has none yet."""
        trial = rollout_of(state).trial
        if trial is None:
            raise HookError("the rollout has no sandbox yet: an override of setup_state calls that of HarborEnv first")
        return trial

    def trial_spec(self, row: Row, model: str) -> "TrialSpec":
        """The trial that a rollout on a row is, as long as no hook says otherwise. Raises UsageError."""
        from seatrial.trial.spec import TrialSpec  # noqa: PLC0415 - as in `_make_workplace`

        task, name = self._task_of(row), str(row["task"])
        return TrialSpec(
            trial_id=f"{trial_id(name, _AGENT_NAME, 1)}.{uuid.uuid4().hex}",
            task=self._adapted(task).model_copy(update={"id": name}),
            task_digest=self._digest(task),
            agent=self._agent_options(model),
            options=self.trial_options,
        )

    def job_spec(self, plan: RunPlan, name: str) -> JobSpec:
        """The job that these rollouts amount to."""
        tasks = {row["task"]: self._task_of(row) for row in plan.rows}
        model = model_options(plan.sampling_args, self.max_turns)
        return JobSpec(
            name=name,
            tasks=tuple(str(task.root) for task in tasks.values()),
            agents=(self._agent_options(plan.model),),
            attempts=max(Counter(row["task"] for row in plan.rows).values()),
            trial=self.trial_options,
            model=model.model_copy(update={"prices": self.prices}),
            run=RunOptions(concurrent=plan.workers, retries=plan.retries),
        )

    def _agent_options(self, model: str) -> AgentOptions:
        return AgentOptions(name=_AGENT_NAME, command=self.run_command, model=model)


def _in_image(task: Task, docker_image: str) -> Task:
    environment = task.config.environment.model_copy(update={"docker_image": docker_image})
    return task.model_copy(update={"config": task.config.model_copy(update={"environment": environment})})


def _naming(options: TrialOptions, image: str) -> TrialOptions:
    """The options for an image that the user's own program names: it may be a folder, which a task's may not."""
    if not why_refused(image):
        return options
    return options.model_copy(update={"image_map": {**options.image_map, glob.escape(image): image}})
