"""HarborEnv: rollouts on Harbor tasks. Each is a trial like those of jobs, with the environment's hooks in between."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from seatrial.agents.environ import INSTRUCTION_PATH, TASK_DIR, tool_variables
from seatrial.env.cli_agent import CliAgentEnv
from seatrial.env.decorators import cleanup, stop
from seatrial.env.harbor_dataset import as_hf_dataset, load_tasks, read_toml, task_rows
from seatrial.env.harbor_steps import StepMonitorRubric, note_step, total_steps, until_judged
from seatrial.env.harbor_trials import AGENT_NAME, KnownTasks, RolloutTrials, in_image, with_limits
from seatrial.env.hooks import blaming, call_hook, settled
from seatrial.env.mcp_mixin import HarborMCPMixin
from seatrial.env.mcp_servers import HarborMCPHealthcheck
from seatrial.env.rows import Row
from seatrial.env.rubric import Rubric, as_reward
from seatrial.env.running import RunPlan
from seatrial.env.sandbox_client import without_client
from seatrial.env.sandbox_resources import vars_of, with_resources
from seatrial.env.sandbox_settings import DEFAULT_IMAGE
from seatrial.env.state import State, rollout_of
from seatrial.env.trial_workplace import RolloutAgent, TrialWorkplace, judged_by_hook, leave_record, open_workplace
from seatrial.env.verifier_hooks import HOOK, open_stage, own_staging, show_verdict
from seatrial.env.workplace import Workplace
from seatrial.errors import HookError, SeatrialError
from seatrial.model.job import AgentOptions, JobSpec, Layout, TrialOptions
from seatrial.model.record import AgentRef
from seatrial.model.task import Task

if TYPE_CHECKING:
    from datasets import Dataset  # type: ignore[import-untyped, import-not-found, unused-ignore]

    from seatrial.gateway.access import ModelAccess
    from seatrial.trial.spec import TrialSpec
    from seatrial.trial.verifier_files import OwnStaging

_log = logging.getLogger(__name__)


class HarborEnv(HarborMCPMixin, CliAgentEnv):
    """Runs `run_command` on each task of `dataset_path`, or on those that `tasks` names, and lets its tests judge it.

    The agent finds instruction.md and task.toml in /task and works in `agent_workdir`. Only after it has ended come
    tests/ and solution/, for the verifier. `docker_image` is for tasks that name none. Further arguments are those of
    CliAgentEnv; without `timeout_seconds` an agent has the time of its task, or an hour. What is said about resources
    goes before what the task says. `allow_env` are names of variables here that task.toml may take by `${NAME}`.
    `mcp_launch_commands` are commands that launch MCP servers of task.toml inside the sandbox, by the servers' names;
    `mcp_healthcheck` says when one is ready. `layout` says where test.sh is run and finds the solution: see
    TrialOptions. `trial_options` may be replaced: they say how rollouts are isolated and judged.

    A task with steps is one rollout: the agent is run for each of them, in the same sandbox.

    Raises DatasetNotFoundError or TaskFormatError for tasks that are not there or cannot be read.
    """

    rollouts_are_trials = True
    usual_layout: ClassVar[Layout] = "harbor"

    def __init__(  # noqa: PLR0913, PLR0917 - the names that authors of environments know
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
        **kwargs: Any,
    ) -> None:
        self.dataset_path = Path(dataset_path)
        self.task_names = tasks
        self.agent_workdir = agent_workdir
        self.mcp_launch_commands = dict(mcp_launch_commands or {})
        self.mcp_healthcheck = mcp_healthcheck or HarborMCPHealthcheck()
        self._known_tasks = KnownTasks({str(task.root): task for task in load_tasks(self.dataset_path, tasks)})
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
            solution="staged",
            layout=layout or self.usual_layout,
            allow_env=tuple(allow_env),
        )

    def load_harbor_dataset(self) -> "Dataset":
        """The tasks as a HuggingFace Dataset: example_id, task, prompt, and info with task_dir, docker_image, config.

        Raises UsageError where the package `datasets` is not installed; only this method needs it.
        """
        return as_hf_dataset(task_rows(self._known_tasks.tasks.values()))

    def _rows_to_use(self) -> Any:
        """What rollouts are made on: the tasks, or what an override of `load_harbor_dataset` makes of them."""
        if type(self).load_harbor_dataset is not HarborEnv.load_harbor_dataset:
            return self.load_harbor_dataset
        return self._own_rows

    def _own_rows(self) -> list[Row]:
        return task_rows(self._known_tasks.tasks.values())

    async def get_docker_image(self, state: State) -> str:
        """The image that the task names, else the one for all."""
        return state["info"].get("docker_image") or self.docker_image

    async def build_env_vars(self, state: State) -> dict[str, str]:
        """The variables of every agent, and those by which it finds its task."""
        variables, task = await super().build_env_vars(state), self._task_of(state)
        named = {
            "HARBOR_TASK_NAME": state["task"],
            "HARBOR_TASK_DIR": TASK_DIR,
            "HARBOR_INSTRUCTION_PATH": INSTRUCTION_PATH,
            "AGENT_WORKDIR": self.agent_workdir,
        }
        with blaming("mcp_agent_env_vars"):
            config = state.get("harbor_config") or read_toml(task)
            servers = await settled(self.mcp_agent_env_vars(config, state))
            variables |= await self._unproxied(config, state, variables.get("NO_PROXY"))
        return {**variables, **named, **tool_variables(task), **servers}

    async def setup_state(self, state: State) -> State | None:
        """Make the task's sandbox, furnish it, and start the agent."""
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
            await settled(self.pre_mcp_setup(state))
        with blaming("start_mcp_servers"):
            await settled(self.start_mcp_servers(sandbox_id, state["harbor_config"], state))

    async def begin_step(self, state: State) -> None:
        """Furnish the sandbox for another step of its task, and start the agent on it."""
        await self._open_model(state)
        await self._furnish(state)
        await self._start(state)

    async def converse(self, state: State) -> None:
        """Answer the agent until it has ended or its rollout does."""
        await self._converse(state)
        if not state["is_completed"]:
            await self.is_completed(state)

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
        stage = workplace.stage or await open_stage(workplace, self.sandbox_client.known(sandbox_id))
        await stage.lay_out()

    async def post_rollout(self, state: State) -> None:
        """See the agent to its end, then judge what it left; so for each step, if the task has steps."""
        await super().post_rollout(state)
        await self.judge_round(state)
        await until_judged(self, state)
        total_steps(state)

    async def judge_round(self, state: State) -> None:
        """Judge what the agent left at its end, in this step if the task has steps."""
        await self.stop_mcp_servers(state)
        agent = rollout_of(state).agent
        if state["error"] is not None or agent is None or agent.run is None:
            return
        workplace = self._workplace(state)
        await workplace.agent_ended(agent.run.result())
        state["reward"] = await self._reward(state)
        if state["error"] is None:
            await workplace.ensure_unspoiled(state["reward"])
            workplace.settle(state["reward"])
            note_step(state)

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
        workplace = self._workplace(state)
        try:
            evaluation = await workplace.judge()
        except SeatrialError as error:
            state["error"] = state["error"] or error
            return 0.0
        if workplace.trial.machinery.staging is not None:
            evaluation = workplace.note_hook(f"note: {HOOK} of {type(self).__qualname__} laid out the tests")
        show_verdict(workplace, self.sandbox_client.known(state["sandbox_id"]))
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
        await leave_record(state)

    @stop
    async def max_turns_reached(self, state: State, **kwargs: Any) -> bool:
        """The model has answered as often as it may, in each step anew."""
        trial = rollout_of(state).trial
        return 0 < self.max_turns <= len(state["trajectory"]) - (trial.first_turn if trial else 0)

    async def _make_workplace(self, state: State, request: Any, model: "ModelAccess") -> Workplace:
        from seatrial.trial.machinery import Machinery  # noqa: PLC0415 - much, and only for the first rollout

        shared = await self._sandboxes.machinery(state)
        agent = RolloutAgent(AgentRef(name=AGENT_NAME, command=self.run_command, model=state["model"]))
        machinery = Machinery(shared.backend, shared.images, model, {AGENT_NAME: agent}, staging=self._staging(state))
        spec = self._spec(state, request)
        workplace = await open_workplace(state, spec, machinery, self._folder(state), self.agent_workdir)
        self._sandboxes.note_image(state, *workplace.images)
        await self._sandboxes.introduce(state, workplace.trial.sandbox, workplace.turn.network)
        return workplace

    def _staging(self, state: State) -> "OwnStaging | None":
        """An override of `upload_test_assets` as the one who lays out a verifier's files; None without one."""
        if type(self).upload_test_assets is HarborEnv.upload_test_assets:
            return None
        return own_staging(type(self).__qualname__, self.upload_test_assets, self.sandbox_client, state)

    def _spec(self, state: State, request: Any) -> "TrialSpec":
        """The trial of a rollout in the sandbox that hooks have asked for."""
        place = rollout_of(state).place
        spec = place.spec if place else self.trial_spec(state, state["model"])
        limits = with_resources(self._sandboxes.settings, vars_of(request)).limits
        spec = with_limits(spec, {name: value for name, value in limits if value is not None})
        return in_image(spec, request.docker_image, self.docker_image, state["info"].get("docker_image"))

    def _task_of(self, state: State) -> Task:
        place = rollout_of(state).place
        return place.spec.task if place else self._known_tasks.task_of(state)

    def _workplace(self, state: State) -> TrialWorkplace:
        """The trial of a rollout. Raises HookError for one that has none yet."""
        trial = rollout_of(state).trial
        if trial is None:
            raise HookError("the rollout has no sandbox yet: an override of setup_state calls that of HarborEnv first")
        return trial

    def trial_spec(self, row: Row, model: str) -> "TrialSpec":
        """The trial that a rollout on a row is, as long as no hook says otherwise. Raises UsageError."""
        return self._trials(model).spec(row, self._sandboxes.settings)

    def job_spec(self, plan: RunPlan, name: str) -> JobSpec:
        """The job that these rollouts amount to."""
        return self._trials(plan.model).job(plan, name, self.prices, self.max_turns)

    def _trials(self, model: str) -> RolloutTrials:
        agent = AgentOptions(name=AGENT_NAME, command=self.run_command, model=model)
        return RolloutTrials(self._known_tasks, agent, self.trial_options, self.timeout_seconds)
