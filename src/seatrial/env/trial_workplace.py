"""The workplace of an agent with a Harbor task: a trial, taken step by step by its rollout.

It begins rounds, judges what the agent left, lets hooks work in the verifier's place, and makes the record. The parts
of `seatrial.trial` are imported when they are first used, so that `import seatrial` is quick.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seatrial.agents.api import AgentContext, AgentLaunch
from seatrial.env.sandbox_client import KnownSandbox, SandboxView
from seatrial.errors import HookError
from seatrial.images.resolver import ResolvedImage
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.record import AgentRef, AgentResult, TrialRecord
from seatrial.model.task import TaskConfig
from seatrial.sandbox.transfer import pack_files, put_packed, put_tree

if TYPE_CHECKING:  # everything a trial needs: the first rollout imports it
    from collections.abc import Mapping

    from seatrial.gateway.access import OpenAccess
    from seatrial.trial.rounds import Round
    from seatrial.trial.steps import OpenTrial, Turn
    from seatrial.trial.verification import Verification
    from seatrial.trial.verifier import VerifierStage
    from seatrial.trial.work import Work


class RolloutAgent(NamedTuple):
    """The agent of a trial that a rollout drives: it brings nothing along, and the rollout starts its command."""

    ref: AgentRef

    def templates(self, _: TaskConfig) -> "Mapping[str, str]":
        return {}

    def prepare(self, _: AgentContext) -> AgentLaunch | None:
        return AgentLaunch(())


@dataclass(eq=False, slots=True)
class TrialWorkplace:
    """A trial under way, in the `turn` of one of its rounds."""

    trial: "OpenTrial"
    turn: "Turn"
    workdir: str
    evaluation: EvaluationResult | None = None
    """There once the round has been judged."""
    rewards: dict[str, float] = field(default_factory=dict)
    """Those of the steps that have been judged, by their names."""
    stage: "VerifierStage | None" = None
    """The verifier's place while a hook lays out its files."""
    first_turn: int = 0
    """How many turns of the rollout came before this round."""
    _ended: AgentResult | None = None
    _work: "Work | None" = None

    @property
    def folder(self) -> Path:
        return self.trial.folder / self.turn.round.folder

    @property
    def step(self) -> str | None:
        return self.turn.round.name

    def next_round(self) -> "Round | None":
        """The round that the agent may begin now that this one is judged; None when there is none."""
        from seatrial.trial.rounds import rounds_of  # noqa: PLC0415

        rounds = rounds_of(self.trial.spec.task)
        number = [each.name for each in rounds].index(self.step) + 1
        good = self.evaluation is not None and self.turn.round.is_good_enough(self.evaluation)
        return rounds[number] if good and number < len(rounds) else None

    def begin(self, round_: "Round", first_turn: int) -> None:
        self.turn, self.first_turn = self.trial.begin(round_), first_turn
        self.evaluation = self.stage = self._ended = self._work = None

    def total(self) -> tuple[float, EvaluationResult]:
        """What all steps amount to, as a job combines them: the reward that hooks gave, and the evaluation."""
        from seatrial.trial.combine import combine, combined_reward  # noqa: PLC0415

        strategy = self.trial.spec.task.config.multi_step_reward_strategy
        judged = {log.round.name: log.evaluation for log in self.trial.log.rounds if log.evaluation}
        named = {name: each for name, each in judged.items() if name}
        return combined_reward([*self.rewards.values()], strategy), combine(named, strategy)

    @property
    def images(self) -> tuple[str, ResolvedImage]:
        from seatrial.trial.place import agent_image  # noqa: PLC0415

        place = self.trial.place
        return agent_image(self.trial.spec.task).title, ResolvedImage(place.sandbox.image, place.image_from)

    def open_model(self, port: int) -> "AbstractAsyncContextManager[OpenAccess | None]":
        return self.turn.open_model(port)

    async def set_up(self) -> None:
        async with self._explaining():
            await self.turn.set_up()

    async def make_workdir(self) -> None:
        async with self._explaining():
            await put_packed(self.trial.sandbox, self.workdir, pack_files({}))

    async def run(self, launch: AgentLaunch, access: "OpenAccess | None") -> AgentResult:
        return await self.turn.run_agent(replace(launch, cwd=self.workdir), access)

    async def agent_ended(self, result: AgentResult) -> None:
        """Take stock of what the agent left, after its end."""
        if result.stdout_path is None:  # one that we have ended cannot tell where its output went
            base = f"{self.turn.round.folder}/agent".lstrip("/")
            result = result.model_copy(update={f"{name}_path": f"{base}/{name}.txt" for name in ("stdout", "stderr")})
        self.turn.notes.agent_result = self._ended = result
        async with self._explaining():
            self._work = await self.turn.take_stock(result)

    def verdict(self) -> EvaluationResult | None:
        """How the round was judged; None as long as it was not. Raises HookError while the agent may be at work."""
        if self._ended is None:
            raise HookError(
                "the tests judge what an agent left at its end, and it has not ended: not before post_rollout"
            )
        return self.turn.notes.evaluation

    async def judge(self) -> EvaluationResult:
        """Verify what the agent left, and score it. Raises TrialError."""
        assert self._ended is not None  # noqa: S101 - `verdict` has been asked
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
        assert self.evaluation is not None  # noqa: S101 - it was judged
        errors = self.evaluation.validity.errors
        validity = self.evaluation.validity.model_copy(update={"errors": [*dict.fromkeys([*errors, line])]})
        self.evaluation = self.turn.notes.evaluation = self.evaluation.model_copy(update={"validity": validity})
        return self.evaluation

    def note_reward(self, reward: float) -> None:
        """The round has been judged, if not by its verifier then by a hook, which gave that reward."""
        self.evaluation = self.turn.notes.evaluation = self.evaluation or judged_by_hook(reward)
        if self.step:
            self.rewards[self.step] = reward

    async def ensure_unspoiled(self, reward: float) -> None:
        """Raise HostExhaustedError for a reward of a hook's own that this machine may have spoiled."""
        from seatrial.trial.verdict import ensure_unspoiled  # noqa: PLC0415

        if self.evaluation is None and reward < 1.0:
            await self.trial.host.look()
            ensure_unspoiled(self.trial.host)

    def _explaining(self) -> AbstractAsyncContextManager[None]:
        from seatrial.trial.verdict import explaining  # noqa: PLC0415

        return explaining(self.trial.host, self.trial.log)

    async def open_stage(self, known: KnownSandbox) -> "VerifierStage":
        """The verifier's place for an override of `compute_reward` that runs the tests itself; hooks work there then.

        It is shielded like that of any verifier. Raises HookError while the agent may still be at work.
        """
        from seatrial.trial.shield import raise_shield  # noqa: PLC0415
        from seatrial.trial.verifier import VerifierStage, choose_isolation, link_oracle, make_way, must_be_alone  # noqa: PLC0415

        verification, trial = self.verification(), self.trial
        isolation = choose_isolation(verification)
        if isolation == "separate" or (isolation == "guarded" and must_be_alone(verification, by_hook=True)):
            isolation = "kill"  # the hook's commands know one sandbox
        await make_way(verification, trial.sandbox)
        shield = await raise_shield(verification, trial.sandbox, trial.machinery, isolation)
        if shield.isolation not in ("guarded", "kill"):
            await trial.sandbox.renew_verifier()
        await link_oracle(verification, trial.sandbox)
        stage = VerifierStage(verification, trial.sandbox)
        known.view = verifier_view(stage)
        return stage

    def show_verdict(self, known: KnownSandbox) -> None:
        """Let hooks see what the verifier wrote, now that it has judged and no agent comes after it.

        What they run is shielded as the verifier was: a reward that the agent's programs read is the agent's word.
        """
        sandbox, view, files = self.trial.sandbox, known.view, self.folder / "verifier/files"

        async def prepare() -> None:
            from seatrial.verify.stage import LOGS_DIR  # noqa: PLC0415

            await self._shield_again()
            # The logs that counted: a verifier may have run elsewhere, or once more after they were read.
            if files.is_dir():
                await put_tree(sandbox, LOGS_DIR, files, phase="verifier")

        known.view = SandboxView(sandbox, "verifier", view.network, view.env, prepare)

    async def _shield_again(self) -> None:
        """Shield the sandbox where it was not, because the verifier ran elsewhere, or no longer is, after a second
        verdict on the system as the agent left it; the tests are laid out again then.
        """
        from seatrial.trial.shield import raise_shield  # noqa: PLC0415
        from seatrial.trial.verifier import VerifierStage, link_oracle  # noqa: PLC0415

        run, trial = self.turn.notes.verifier_run, self.trial
        if run is None:
            return
        verification = self.verification()
        guarded = verification.place.capabilities.guarded_phases
        in_copy = run.isolation == "guarded" and not guarded
        elsewhere = run.isolation == "separate" or in_copy
        if not elsewhere and run.appeal is None:
            return
        isolation = ("guarded" if guarded else "kill") if elsewhere else run.isolation
        await raise_shield(verification, trial.sandbox, trial.machinery, isolation)
        if not elsewhere:
            stage, staging = VerifierStage(verification, trial.sandbox), trial.machinery.staging
            await link_oracle(verification, trial.sandbox)
            await (staging.run(stage) if staging else stage.lay_out())

    async def record(self, error: Exception | None, reward: float) -> TrialRecord:
        """What has become of the trial: it failed with an error, or it was judged, if not by its verifier then by a
        hook, which gave that reward.
        """
        if error is not None:
            self.trial.log.fail(error)
        else:
            if self.turn.notes.evaluation is None:
                self.note_reward(reward)
            await self.trial.complete()
        return self.trial.log.record()


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


def verifier_view(stage: "VerifierStage") -> SandboxView:
    from seatrial.trial.verifier import plan_verifier  # noqa: PLC0415

    plan = plan_verifier(stage.verification)
    return SandboxView(stage.sandbox, "verifier", plan.network, plan.env)
