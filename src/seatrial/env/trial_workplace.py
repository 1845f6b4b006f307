"""The workplace of an agent with a Harbor task: a trial, taken step by step by its rollout."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.env.state import State, rollout_of
from seatrial.errors import HookError, UsageError
from seatrial.images.resolver import ResolvedImage
from seatrial.model.agent import AgentResult
from seatrial.model.config import TaskConfig
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.job import ModelOptions
from seatrial.model.record import AgentRef, TrialRecord
from seatrial.sandbox.transfer import pack_files, put_packed

if TYPE_CHECKING:  # everything a trial needs, which nobody needs before the first rollout
    from collections.abc import Mapping

    from seatrial.gateway.access import OpenAccess
    from seatrial.trial.machinery import Machinery
    from seatrial.trial.rounds import Round
    from seatrial.trial.spec import TrialSpec
    from seatrial.trial.steps import OpenTrial, Turn
    from seatrial.trial.verification import Verification
    from seatrial.trial.verifier_files import VerifierStage
    from seatrial.trial.work import Work


@dataclass(frozen=True, slots=True)
class RolloutAgent:
    """The agent of a trial that a rollout drives: it brings nothing along, and the rollout starts its command."""

    ref: AgentRef

    def templates(self, _: TaskConfig) -> "Mapping[str, str]":
        """Nothing of the host's."""
        return {}

    def prepare(self, _: AgentContext) -> AgentLaunch | None:
        """Nothing of its own."""
        return AgentLaunch(())


@dataclass(eq=False, slots=True)
class TrialWorkplace:
    """A trial under way, in the `turn` of one of its rounds. `evaluation` is there once that has been judged.

    `rewards` are those of the steps that have been judged, by their names. `stage` is the verifier's place while a hook
    lays out its files.
    """

    trial: "OpenTrial"
    turn: "Turn"
    workdir: str
    evaluation: EvaluationResult | None = None
    rewards: dict[str, float] = field(default_factory=dict)
    stage: "VerifierStage | None" = None
    first_turn: int = 0
    """How many turns of the rollout came before this round."""
    _ended: AgentResult | None = None
    _work: "Work | None" = None

    @property
    def folder(self) -> Path:
        """Where the files of the round go."""
        return self.trial.folder / self.turn.round.folder

    @property
    def step(self) -> str | None:
        """The name of the step; None in a task without steps."""
        return self.turn.round.name

    def next_round(self) -> "Round | None":
        """The round that the agent may begin now that this one is judged; None when there is none."""
        from seatrial.trial.rounds import rounds_of  # noqa: PLC0415 - see above

        rounds = rounds_of(self.trial.spec.task)
        number = [each.name for each in rounds].index(self.step) + 1
        good = self.evaluation is not None and self.turn.round.is_good_enough(self.evaluation)
        return rounds[number] if good and number < len(rounds) else None

    def begin(self, round_: "Round", first_turn: int) -> None:
        """Begin another round."""
        self.turn, self.first_turn = self.trial.begin(round_), first_turn
        self.evaluation = self.stage = self._ended = self._work = None

    def total(self) -> tuple[float, EvaluationResult]:
        """What all steps amount to, as a job combines them: the reward that hooks gave, and the evaluation."""
        from seatrial.trial.combine import combine  # noqa: PLC0415 - see above

        strategy = self.trial.spec.task.config.multi_step_reward_strategy
        rewards = [*self.rewards.values()]
        judged = {log.round.name: log.evaluation for log in self.trial.log.rounds if log.evaluation}
        named = {name: each for name, each in judged.items() if name}
        reward = fmean(rewards) if strategy == "mean" else rewards[-1]
        return reward, combine(named, strategy)

    @property
    def images(self) -> tuple[str, ResolvedImage]:
        """What the task asks for, and what is used."""
        from seatrial.trial.place import agent_image  # noqa: PLC0415 - see above

        place = self.trial.place
        return agent_image(self.trial.spec.task).title, ResolvedImage(place.sandbox.image, place.image_from)

    def open_model(self, port: int) -> "AbstractAsyncContextManager[OpenAccess | None]":
        """The agent's way to its model."""
        return self.turn.open_model(port)

    async def set_up(self) -> None:
        """Put in place what the agent may see."""
        async with self._explaining():
            await self.turn.set_up()

    async def make_workdir(self) -> None:
        """Make the agent's directory."""
        async with self._explaining():
            await put_packed(self.trial.sandbox, self.workdir, pack_files({}))

    async def run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        """Run the agent's command in its directory."""
        return await self.turn.run_agent(replace(launch, cwd=self.workdir), access)

    async def agent_ended(self, result: AgentResult) -> None:
        """The agent is no more: take stock of what it left."""
        if result.stdout_path is None:  # one that we have ended cannot tell where its output went
            base = f"{self.turn.round.folder}/agent".lstrip("/")
            result = result.model_copy(update={f"{name}_path": f"{base}/{name}.txt" for name in ("stdout", "stderr")})
        self.turn.notes.agent_result = self._ended = result
        async with self._explaining():
            self._work = await self.turn.take_stock(result)

    async def judge(self) -> EvaluationResult:
        """Verify what the agent left, and score it; the same again when asked again. Raises TrialError."""
        if self._ended is None:
            raise HookError(
                "the tests judge what an agent left at its end, and it has not ended: not before post_rollout"
            )
        if self.turn.notes.evaluation is None:
            assert self._work is not None  # noqa: S101 - it is only missing where a zero was noted instead
            async with self._explaining():
                judgement = await self.turn.verify(self._ended, self._work)
                self.turn.score(judgement, self._work)
        self.evaluation = self.turn.notes.evaluation
        assert self.evaluation is not None  # noqa: S101 - scored, or a zero was noted
        return self.evaluation

    def verification(self) -> "Verification":
        """What is to be judged of this round. Raises HookError while the agent may still be at work."""
        if self._ended is None or self._work is None:
            raise HookError("tests are laid out after the agent has ended, and it has not; compute_reward is the place")
        return self.turn.verification(self._ended, self._work)

    def note_hook(self, line: str) -> EvaluationResult:
        """Say in the evaluation what a hook had to do with it."""
        assert self.evaluation is not None  # noqa: S101 - it was judged
        errors = self.evaluation.validity.errors
        validity = self.evaluation.validity.model_copy(update={"errors": [*dict.fromkeys([*errors, line])]})
        self.evaluation = self.turn.notes.evaluation = self.evaluation.model_copy(update={"validity": validity})
        return self.evaluation

    def settle(self, reward: float) -> None:
        """The round has been judged, if not by its verifier then by a hook, which gave that reward."""
        self.evaluation = self.turn.notes.evaluation = self.evaluation or judged_by_hook(reward)
        if self.step:
            self.rewards[self.step] = reward

    async def ensure_unspoiled(self, reward: float) -> None:
        """Raise HostExhaustedError for a reward of a hook's own that this machine may have spoiled."""
        from seatrial.trial.exhaustion import ensure_unspoiled  # noqa: PLC0415 - see above

        if self.evaluation is None and reward < 1.0:
            await self.trial.host.look()
            ensure_unspoiled(self.trial.host)

    def _explaining(self) -> AbstractAsyncContextManager[None]:
        from seatrial.trial.exhaustion import explaining  # noqa: PLC0415 - see above

        return explaining(self.trial.host, self.trial.log)

    async def record(self, error: Exception | None, reward: float) -> TrialRecord:
        """What has become of the trial: it failed with an error, or it was judged, if not by its verifier then by a
        hook, which gave that reward.
        """
        if error is not None:
            self.trial.log.fail(error)
        else:
            if self.turn.notes.evaluation is None:
                self.settle(reward)
            await self.trial.complete()
        return self.trial.log.record()


async def open_workplace(
    state: State, spec: "TrialSpec", machinery: "Machinery", folder: Path, workdir: str
) -> TrialWorkplace:
    """The trial of a rollout in the first of its rounds; its sandbox is destroyed with the rollout's resources."""
    from seatrial.trial.events import unobserved  # noqa: PLC0415 - see above
    from seatrial.trial.log import TrialLog  # noqa: PLC0415
    from seatrial.trial.rounds import rounds_of  # noqa: PLC0415
    from seatrial.trial.steps import open_trial  # noqa: PLC0415

    opening = open_trial(spec, machinery, folder, TrialLog(spec, unobserved))
    rollout = rollout_of(state)
    trial = await rollout.resources.enter_async_context(opening)
    rollout.trial = TrialWorkplace(trial, trial.begin(rounds_of(spec.task)[0]), workdir)
    state["step"] = rollout.trial.step
    return rollout.trial


async def leave_record(state: State) -> None:
    """Leave the record of a rollout's trial on its state, and what it keeps of its calls in its folder."""
    error, rollout = state["error"], rollout_of(state)
    if error is not None:
        state["reward"] = 0.0
    if rollout.trial is None or state["reward"] is None:
        return
    trial = rollout.trial.trial
    rollout.record = await rollout.trial.record(error, state["reward"])
    state["sandbox_oom"] = bool(trial.log.resources and trial.log.resources.oom_kills)
    if rollout.place:  # else nothing of it stays
        from seatrial.trial.trajectories import keep_trajectories  # noqa: PLC0415 - see above

        await keep_trajectories(trial.log, trial.folder)


def judged_by_hook(reward: float, reason: str | None = None) -> EvaluationResult:
    """An evaluation where `compute_reward` was overridden and no verifier ran, or where it failed."""
    usable = reason is None and 0.0 <= reward <= 1.0
    said = f"compute_reward returned {reward}"
    wrong = reason if reason or usable else f"{said}; expected a number from 0 to 1, so no mean of a job has it"
    line = f"hook_error: {wrong}" if wrong else f"note: {said}; no verifier ran"
    return EvaluationResult(
        reward=reward if usable else 0.0,
        validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=usable, errors=[line]),
    )


def model_options(sampling_args: "Mapping[str, Any]", max_turns: int) -> ModelOptions:
    """What a job says about its model calls, as far as it has words for it. Raises UsageError."""
    try:
        return ModelOptions(
            temperature=sampling_args.get("temperature"),
            top_p=sampling_args.get("top_p"),
            seed=sampling_args.get("seed"),
            max_output_tokens=sampling_args.get("max_tokens"),
            max_turns=max_turns if max_turns > 0 else None,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"sampling_args: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
