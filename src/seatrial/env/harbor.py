"""HarborEnv: rollouts on Harbor tasks. Each is a trial like those of jobs, with the environment's hooks in between.

`trial_workplace` takes the steps of the trial, `harbor_trials` reads tasks and makes rows of them, `cli_agent` runs
the agent. What makes trials (`seatrial.trial`) is imported by the first rollout, so that `import seatrial` is quick.
"""

import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from seatrial.agents.environ import INSTRUCTION_PATH, TASK_DIR, tool_variables
from seatrial.env.agent_state import Workplace, agent_of
from seatrial.env.cli_agent import USUAL_SECONDS, CliAgentEnv
from seatrial.env.harbor_trials import (
    KnownTasks,
    as_hf_dataset,
    in_image,
    load_tasks,
    model_options,
    read_toml,
    task_rows,
    with_limits,
)
from seatrial.env.hooks import blaming, call_hook, cleanup, maybe_await, stop
from seatrial.env.mcp import HarborMCPHealthcheck, HarborMCPMixin
from seatrial.env.monitors import StepMonitorRubric
from seatrial.env.rollout import State, read_info, rollout_of
from seatrial.env.rows import Row
from seatrial.env.rubric import Rubric, as_reward
from seatrial.env.running import RunPlan
from seatrial.env.sandbox_client import SandboxView, without_client
from seatrial.env.sandboxes import DEFAULT_IMAGE
from seatrial.env.trial_workplace import RolloutAgent, TrialWorkplace, judged_by_hook, verifier_view
from seatrial.errors import HookError, SeatrialError, UsageError
from seatrial.model.arguments import as_names, as_path
from seatrial.model.base import trial_id
from seatrial.model.events import unobserved
from seatrial.model.job import AgentOptions, JobSpec, Layout, RunOptions, TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.outcome import PASS_THRESHOLD
from seatrial.model.record import AgentRef

if TYPE_CHECKING:  # everything a trial needs: the first rollout imports it
    from datasets import Dataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

    from seatrial.gateway.access import ModelAccess
    from seatrial.trial.rounds import Round
    from seatrial.trial.spec import TrialSpec
    from seatrial.trial.verifier import OwnStaging, VerifierStage

AGENT_NAME = "command"
_HOOK = "upload_test_assets"
_BEFORE_A_STEP = {
    "is_completed": False,
    "stop_condition": None,
    "agent_completed": False,
    "agent_exit_code": None,
    "agent_timed_out": False,
    "timed_out": False,
    "prompt_too_long": False,
    "background_job": None,
}
"""What is known of an agent before one starts."""

_log = logging.getLogger(__name__)


class HarborEnv(HarborMCPMixin, CliAgentEnv):
    """Runs `run_command` on each task of `dataset_path`, or on those that `tasks` names, and lets its tests judge it.

    The agent finds instruction.md and task.toml in /task and works in `agent_workdir`. Only after it has ended come
    tests/ and solution/, for the verifier. `docker_image` is for tasks that name none. Further arguments are those of
    CliAgentEnv; without `timeout_seconds` an agent has the time of its task, or an hour. What is said about resources
    goes before what the task says. `allow_env` are names of variables here that task.toml may take by `${NAME}`.
    Verifiers that ask a model find it at `verifier_upstream`, under other names by `verifier_models`.
    `mcp_launch_commands` are commands that launch MCP servers of task.toml inside the sandbox, by the servers' names;
    `mcp_healthcheck` says when one is ready. `layout` says where test.sh is run and finds the solution: see
    TrialOptions. `trial_options` may be replaced: they say how rollouts are isolated and judged.

    A task with steps is one rollout: the agent is run for each of them, in the same sandbox.

    Raises DatasetNotFoundError or TaskFormatError for tasks that are not there or cannot be read.
    """

    rollouts_are_trials = True
    trial_options: TrialOptions
    usual_layout: ClassVar[Layout] = "harbor"

    def __init__(  # noqa: PLR0913 - the names that authors of environments know
        self,
        run_command: str,
        dataset_path: str | Path,
        tasks: list[str] | None = None,
        agent_workdir: str = "/app",
        docker_image: str = DEFAULT_IMAGE,
        mcp_launch_commands: Mapping[str, str] | None = None,
        mcp_healthcheck: HarborMCPHealthcheck | None = None,
        *,
        layout: Layout | None = None,
        allow_env: Iterable[str] = (),
        verifier_upstream: str | None = None,
        verifier_models: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.trial_options = TrialOptions()
        self.dataset_path = as_path("dataset_path", dataset_path)
        self.task_names = tasks if tasks is None else list(as_names("tasks", tasks))
        self.agent_workdir = agent_workdir
        self.mcp_launch_commands = dict(mcp_launch_commands or {})
        self.mcp_healthcheck = mcp_healthcheck or HarborMCPHealthcheck()
        self._known_tasks = KnownTasks(
            {str(task.root): task for task in load_tasks(self.dataset_path, self.task_names)}
        )
        given: Rubric | None = kwargs.pop("rubric", None)
        kwargs = {"timeout_seconds": None, "dataset": self._rows_to_use(), **kwargs}
        super().__init__(run_command, docker_image=docker_image, rubric=Rubric([self.harbor_reward]), **kwargs)
        self.add_rubric(StepMonitorRubric())
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
            pass_threshold=self.pass_threshold,
            solution="staged",
            layout=layout or self.usual_layout,
            allow_env=as_names("allow_env", allow_env),
            verifier_upstream=verifier_upstream,
            verifier_models=dict(verifier_models or {}),
        )
        if verifier_upstream or verifier_models:
            from seatrial.jobs.machinery import check_verifier_model  # noqa: PLC0415 - see the top

            check_verifier_model(self.trial_options)

    @property
    def pass_threshold(self) -> float:
        """The reward from which on a rollout has passed, here and in its record: it is one of the `trial_options`."""
        return self.trial_options.pass_threshold

    @pass_threshold.setter
    def pass_threshold(self, reward: Any) -> None:
        if not isinstance(reward, int | float) or not 0.0 <= reward <= 1.0:
            raise UsageError(f"pass_threshold is {reward}, expected a reward from 0 to 1, such as {PASS_THRESHOLD}")
        self.trial_options = self.trial_options.model_copy(update={"pass_threshold": float(reward)})

    def load_harbor_dataset(self) -> "Dataset":
        """The tasks as a HuggingFace Dataset: example_id, task, prompt, and info with task_dir, docker_image, config.

        Raises UsageError where the package `datasets` is not installed; only this method needs it.
        """
        return as_hf_dataset(task_rows(self._known_tasks.tasks.values()))

    def _rows_to_use(self) -> Any:
        if type(self).load_harbor_dataset is not HarborEnv.load_harbor_dataset:  # an override says what rows there are
            return self.load_harbor_dataset
        return self._own_rows

    def _own_rows(self) -> list[Row]:
        return task_rows(self._known_tasks.tasks.values())

    async def get_docker_image(self, state: State) -> str:
        """The image that the task names, else the one for all."""
        info = read_info(state)
        if isinstance(info, Mapping) and "docker_image" in info:
            return info["docker_image"] or self.docker_image
        return self._task_of(state).config.environment.docker_image or self.docker_image

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The variables of every agent, and those by which it finds its task."""
        variables, task = await super().build_env_vars(state), self._task_of(state)
        named = {
            "HARBOR_TASK_NAME": state.get("task") or task.id,
            "HARBOR_TASK_DIR": TASK_DIR,
            "HARBOR_INSTRUCTION_PATH": INSTRUCTION_PATH,
            "AGENT_WORKDIR": self.agent_workdir,
        }
        with blaming("mcp_agent_env_vars"):
            config = state.get("harbor_config") or read_toml(task)
            servers = await maybe_await(self.mcp_agent_env_vars(config, state))
            variables |= await self._unproxied(config, state, variables.get("NO_PROXY"))
        return {**variables, **named, **tool_variables(task), **servers}

    async def setup_state(self, state: State) -> State | None:
        task = self._task_of(state)
        state["harbor_config"], state["harbor_task_dir"] = read_toml(task), str(task.root)
        return await super().setup_state(state)

    @without_client
    async def post_sandbox_setup(self, state: State) -> None:
        """Put instruction.md and task.toml in place, and launch MCP servers. An override calls this one first."""
        await self._furnish(state)

    async def _furnish(self, state: State) -> None:
        workplace, sandbox_id, task_dir = self._workplace(state), state["sandbox_id"], Path(state["harbor_task_dir"])
        with blaming("prepare_harbor_task"):
            hook, client = self.prepare_harbor_task, self.sandbox_client
            await call_hook(hook, sandbox_client=client, sandbox_id=sandbox_id, task_dir=task_dir)
        await workplace.make_workdir()
        with blaming("pre_mcp_setup"):
            await maybe_await(self.pre_mcp_setup(state))
        with blaming("start_mcp_servers"):
            await maybe_await(self.start_mcp_servers(sandbox_id, state["harbor_config"], state))

    @without_client
    async def prepare_harbor_task(self, sandbox_id: str, task_dir: Path) -> None:
        """Put in place what the agent may see of its task, at the beginning of each step if it has steps."""
        await self._workplace(self._sandboxes.state_of(sandbox_id)).set_up()

    async def pre_mcp_setup(self, state: State) -> None:
        """Before MCP servers are launched: install or upload what they need."""

    @without_client
    async def upload_test_assets(self, sandbox_id: str, task_dir: Path) -> None:
        """Lay out tests/ and solution/ for the verifier, after the agent has ended.

        An override does so each time a verifier is about to run; `self.sandbox_client` works in the verifier's place
        meanwhile, which no agent sees. Raises HookError while the agent may still be at work.
        """
        workplace = self._workplace(self._sandboxes.state_of(sandbox_id))
        stage = workplace.stage or await workplace.open_stage(self.sandbox_client.known(sandbox_id))
        await stage.lay_out()

    async def post_rollout(self, state: State) -> None:
        """See the agent to its end, then judge what it left; so for each step, if the task has steps."""
        await super().post_rollout(state)
        await self._judge_round(state)
        trial = rollout_of(state).trial
        while trial is not None and state["error"] is None and state["final_env_response"] is None:
            round_ = trial.next_round()
            if round_ is None:
                break
            await self._play_step(state, trial, round_)
            await self._judge_round(state)
        if trial is None or trial.step is None or state["error"] is not None:
            return
        with blaming("render_completion"):
            state["completion"] = await maybe_await(self.render_completion(state))
        if trial.rewards:
            state["step_rewards"] = dict(trial.rewards)
            state["reward"], state["evaluation"] = trial.total()

    async def _play_step(self, state: State, trial: TrialWorkplace, round_: "Round") -> None:
        """The agent's turn at another step, in the same sandbox. What goes wrong is on the state, as in the first."""
        began, agent = time.perf_counter(), agent_of(state)
        trial.begin(round_, len(state["trajectory"]))
        state.update(_BEFORE_A_STEP, step=round_.name)
        # What the verifier of the step before had is no longer seen: an agent comes.
        known = self.sandbox_client.known(state["sandbox_id"])
        known.view = SandboxView(trial.trial.sandbox, network=trial.turn.network, env=known.view.env)
        agent.interception.reopen()
        agent.run = agent.turn = None
        try:
            await self._open_model(state)
            await self._furnish(state)
            await self._start(state)
            await self._converse(state)
            if not state["is_completed"]:
                await self.is_completed(state)
        except SeatrialError as error:
            state["error"] = state["error"] or error
        await agent.end(state, self.timeout_seconds)
        state["timing"]["generation_ms"] += (time.perf_counter() - began) * 1000

    async def _judge_round(self, state: State) -> None:
        await self.stop_mcp_servers(state)
        agent = rollout_of(state).agent
        if state["error"] is not None or agent is None or agent.run is None:
            return
        workplace = self._workplace(state)
        await workplace.agent_ended(agent.run.result())
        state["reward"] = await self._reward(state)
        if state["error"] is None:
            await workplace.ensure_unspoiled(state["reward"])
            workplace.note_reward(state["reward"])
            _note_step(state, workplace)

    async def _reward(self, state: State) -> float:
        """What `compute_reward` gives; 0.0 with the reason in the evaluation when it fails by itself."""
        try:
            return as_reward(await maybe_await(self.compute_reward(state)))
        except SeatrialError:
            raise
        except Exception as error:  # noqa: BLE001 - a hook that fails must not end other rollouts
            reason = f"compute_reward failed: {type(error).__name__}: {error}"
            _log.exception("rollout of %s: compute_reward failed", state["task"])
            state["evaluation"] = self._workplace(state).evaluation = judged_by_hook(0.0, reason)
            return 0.0

    async def compute_reward(self, state: State) -> float:
        """Run the task's tests and read the reward they wrote: from reward.txt, else from reward.json.

        Whatever else they did is 0.0, with the reason in `state["evaluation"]`. When the machinery fails,
        `state["error"]` says so. What was judged already is not judged again. Raises HookError for a state without a
        sandbox, and while the agent may still be at work.
        """
        workplace = self._workplace(state)
        if (known := workplace.verdict()) is not None:
            state["evaluation"] = known
            return known.reward
        try:
            evaluation = await workplace.judge()
        except SeatrialError as error:
            state["error"] = state["error"] or error
            return 0.0
        if workplace.trial.machinery.staging is not None:
            evaluation = workplace.note_hook(f"note: {_HOOK} of {type(self).__qualname__} laid out the tests")
        workplace.show_verdict(self.sandbox_client.known(state["sandbox_id"]))
        state["evaluation"] = evaluation
        if not evaluation.validity.verifier_completed:
            _log.warning("rollout of %s: %s", state["task"], "; ".join(evaluation.validity.errors))
        return evaluation.reward

    async def harbor_reward(self, state: State) -> float:
        return float(state["reward"])

    @cleanup(priority=50)
    async def keep_record(self, state: State) -> None:
        """Leave the trial's record on the state, before the sandbox is gone. The reward of one that failed is 0.0."""
        error, rollout = state["error"], rollout_of(state)
        if error is not None:
            state["reward"] = 0.0
        if rollout.trial is None or state["reward"] is None:
            return
        trial = rollout.trial.trial
        rollout.record = await rollout.trial.record(error, state["reward"])
        state["sandbox_oom"] = bool(trial.log.resources and trial.log.resources.oom_kills)
        if rollout.place:  # else nothing of it stays
            from seatrial.trial.steps import keep_trajectories  # noqa: PLC0415 - see the top

            await keep_trajectories(trial.log, trial.folder)

    @stop
    async def max_turns_reached(self, state: State, **kwargs: Any) -> bool:
        """The model has answered as often as it may in this step."""
        trial = rollout_of(state).trial
        return 0 < self.max_turns <= len(state["trajectory"]) - (trial.first_turn if trial else 0)

    async def _make_workplace(self, state: State, request: Any, model: "ModelAccess") -> Workplace:
        """The trial of a rollout in the first of its rounds. Its sandbox is destroyed with the rollout's resources."""
        from seatrial.jobs.machinery import verifier_access  # noqa: PLC0415 - see the top
        from seatrial.trial.log import TrialLog  # noqa: PLC0415
        from seatrial.trial.rounds import rounds_of  # noqa: PLC0415
        from seatrial.trial.spec import Machinery  # noqa: PLC0415
        from seatrial.trial.steps import open_trial  # noqa: PLC0415

        shared, rollout = await self._sandboxes.machinery(state), rollout_of(state)
        agent = RolloutAgent(AgentRef(name=AGENT_NAME, command=self.run_command, model=state["model"]))
        asked = await rollout.resources.enter_async_context(verifier_access(self.trial_options, self.prices))
        machinery = Machinery(
            shared.backend, shared.images, model, asked, {AGENT_NAME: agent}, staging=self._staging(state)
        )
        spec = self._spec(state, request)
        opening = open_trial(spec, machinery, self._folder(state), TrialLog(spec, unobserved))
        trial = await rollout.resources.enter_async_context(opening)
        rollout.trial = workplace = TrialWorkplace(trial, trial.begin(rounds_of(spec.task)[0]), self.agent_workdir)
        state["step"] = workplace.step
        self._sandboxes.note_image(state, *workplace.images)
        await self._sandboxes.introduce(state, trial.sandbox, workplace.turn.network)
        return workplace

    def _staging(self, state: State) -> "OwnStaging | None":
        """An override of `upload_test_assets` as the one who lays out a verifier's files; None without one.

        Its client works in the verifier's place meanwhile.
        """
        if type(self).upload_test_assets is HarborEnv.upload_test_assets:
            return None
        from seatrial.trial.verifier import OwnStaging  # noqa: PLC0415 - see the top

        async def run(stage: "VerifierStage") -> None:
            sandbox_id, workplace, client = state["sandbox_id"], self._workplace(state), self.sandbox_client
            workplace.stage = stage
            try:
                with client.known(sandbox_id).seen_as(verifier_view(stage)), blaming(_HOOK):
                    hook, task_dir = self.upload_test_assets, Path(workplace.trial.spec.task.root)
                    await call_hook(hook, sandbox_client=client, sandbox_id=sandbox_id, task_dir=task_dir)
            finally:
                workplace.stage = None

        return OwnStaging(type(self).__qualname__, run)

    def _spec(self, state: State, request: Any) -> "TrialSpec":
        """The trial of a rollout in the sandbox that hooks have asked for."""
        place = rollout_of(state).place
        spec = place.spec if place else self.trial_spec(state, state["model"])
        task = with_limits(spec.task, self._sandboxes.settings.for_request(request).limits)
        return in_image(
            replace(spec, task=task), request.docker_image, self.docker_image, state["info"].get("docker_image")
        )

    def _task_of(self, state: State) -> Task:
        place = rollout_of(state).place
        return place.spec.task if place else self._known_tasks.task_of(state)

    def _workplace(self, state: State) -> TrialWorkplace:
        """The trial of a rollout. Raises HookError for a state that has none."""
        trial = rollout_of(state).trial
        if trial is None:
            raise HookError(
                "the state has no sandbox: an override of setup_state calls that of HarborEnv first. By hand, "
                "`await env.rollout(row, client, model)` makes one, runs the agent in it and has the tests judge it"
            )
        return trial

    def trial_spec(self, row: Row, model: str) -> "TrialSpec":
        """The trial that a rollout on a row is, as long as no hook says otherwise. Raises UsageError."""
        from seatrial.trial.spec import TrialSpec  # noqa: PLC0415 - see the top

        task, name = self._known_tasks.task_of(row), str(row["task"])
        seconds = task.config.agent.timeout_sec or (USUAL_SECONDS if self.timeout_seconds is None else None)
        agent = task.config.agent.model_copy(update={"timeout_sec": seconds})
        timed = task.model_copy(update={"id": name, "config": task.config.model_copy(update={"agent": agent})})
        return TrialSpec(
            trial_id=f"{trial_id(name, AGENT_NAME, 1)}.{uuid.uuid4().hex}",
            task=with_limits(timed, self._sandboxes.settings.limits),
            task_digest=self._known_tasks.digest(task),
            agent=self._agent(model),
            options=self.trial_options,
        )

    def job_spec(self, plan: RunPlan, name: str) -> JobSpec:
        tasks = {row["task"]: self._known_tasks.task_of(row) for row in plan.rows}
        model = model_options(plan.sampling_args, self.max_turns)
        return JobSpec(
            name=name,
            tasks=tuple(str(task.root) for task in tasks.values()),
            agents=(self._agent(plan.model),),
            attempts=max(Counter(row["task"] for row in plan.rows).values()),
            trial=self.trial_options,
            model=model.model_copy(update={"prices": self.prices}),
            run=RunOptions(concurrent=plan.workers, retries=plan.retries),
        )

    def _agent(self, model: str) -> AgentOptions:
        return AgentOptions(name=AGENT_NAME, command=self.run_command, model=model)


def _note_step(state: State, trial: TrialWorkplace) -> None:
    """Note how the step went that was just judged, in `step_metrics`: the verifier's own numbers, and ours."""
    if trial.step is None or trial.evaluation is None:
        return
    given = trial.evaluation.breakdown or {}
    state.setdefault("step_metrics", {})[trial.step] = {
        **{name: float(value) for name, value in given.items() if isinstance(value, int | float)},
        "reward": trial.rewards[trial.step],
        "num_turns": float(len(state["trajectory"]) - trial.first_turn),
        "agent_timeout": float(bool(state["agent_timed_out"])),
        "agent_error": float(bool(state["agent_exit_code"])),
    }
