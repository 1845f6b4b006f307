"""A stored trial judged again, without its agent: a new revision of its record, from the end state that was kept.

What the verifier finds now goes through the same steps as in a trial. All else that the record says stays as it was.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.model.base import JsonObject
from seatrial.model.evaluation import NEEDS_SYSTEM, EvaluationResult
from seatrial.model.record import KeptState, StepRecord, TrialRecord
from seatrial.model.regrade import FirstVerdict, Regrade
from seatrial.sandbox.host.watch import host_watch
from seatrial.trial.busy import ABOUT_TIME
from seatrial.trial.events import Observer, unobserved
from seatrial.trial.exhaustion import explaining
from seatrial.trial.handed_over import can_do_with_artifacts, judge_handed_over
from seatrial.trial.judgement import Judgement
from seatrial.trial.kept import KeptTrial, judge_kept, kept_verification
from seatrial.trial.log import TrialLog
from seatrial.trial.machinery import Machinery
from seatrial.trial.place import Place, find_place, verifier_image
from seatrial.trial.repeats import with_others
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import TrialSpec
from seatrial.trial.verdict import Verdicts
from seatrial.trial.verification import Verification
from seatrial.trial.verifier_place import choose_isolation
from seatrial.trial.verifier_tools import TOOL_MISSING

_NAMED = 5


@dataclass(frozen=True, slots=True)
class RegradeSpec:
    """A stored trial that is to be judged again, as the regrade of that `id`.

    `trial` is the first revision, as it ran; `parent` names the newest one. `spec` has the task and the options of
    today. `given` are the tests of each round that were taken from the folder `tests`, and not from the task;
    `options` are those that are not the job's.
    """

    id: str
    trial: KeptTrial
    parent: str
    revision: int
    spec: TrialSpec
    given: Mapping[str | None, tuple[Path, ...]] = field(default_factory=dict)
    tests: str | None = None
    options: JsonObject = field(default_factory=dict)


async def regrade_trial(
    regrade: RegradeSpec, machinery: Machinery, folder: Path, observe: Observer = unobserved
) -> TrialRecord:
    """Judge a stored trial again; logs and files of the verifier go into `folder`. The record is not yet stored.

    Raises UsageError that says why a trial cannot be judged again, TrialError when the machinery fails.
    """
    spec, started = regrade.spec, _now()
    watching = host_watch().attend(spec.trial_id, folder, spec.company)
    # No agent is here whom a shortage could be blamed on, so the log has no round to note a zero in.
    async with watching as host, explaining(host, TrialLog(spec, unobserved)):
        place = await find_place(spec, machinery)
        log = TrialLog(spec, observe)
        judged = await _Judging(regrade, place, Verdicts(machinery, host, log.tell), folder, log).judge_all()
    return _revision(regrade, judged, started)


@dataclass(frozen=True, slots=True)
class _Judging:
    """All rounds of a trial judged again, their files in `folder`."""

    regrade: RegradeSpec
    place: Place
    verdicts: Verdicts
    folder: Path
    log: TrialLog

    async def judge_all(self) -> TrialRecord:
        """A record that says what a trial's would, of all that comes after its agent."""
        before: Round | None = None
        for round_ in rounds_of(self.regrade.spec.task):
            self._refuse_missing(round_, before)
            evaluation = await self._judge(replace(round_, given=self.regrade.given.get(round_.name, ())))
            if not round_.is_good_enough(evaluation):
                break
            before = round_
        self.log.complete()
        return self.log.record()

    async def _judge(self, round_: Round) -> EvaluationResult:
        spec, notes = self.regrade.spec, self.log.begin(round_)
        verification = kept_verification(spec, round_, self.place, self.regrade.trial, self.folder / round_.folder)
        told = _told(self.regrade.trial.record, round_)
        _refuse_services(verification, told)
        _refuse_tests_in_image(verification)
        _refuse_stateless(verification, told.end_state)
        notes.agent_result, notes.end_state = verification.agent_result, told.end_state
        with self.log.phase("verify", round_):
            judgement = await with_others(verification, await self._run(verification), self._run, "fresh")
            judgement = await self.verdicts.confirm(verification, judgement)
            notes.verifier_run, notes.provenance = judgement.run, judgement.provenance
            notes.disputed = judgement.disputed
        with self.log.phase("score", round_):
            settled = self.verdicts.settle(verification, judgement)
            notes.evaluation, notes.missing_tools = settled.evaluation, settled.missing_tools
        return settled.evaluation

    async def _run(self, verification: Verification) -> Judgement:
        machinery = self.verdicts.machinery
        if can_do_with_artifacts(verification):
            return await judge_handed_over(verification, machinery)
        return await judge_kept(verification, self.regrade.trial.archive(verification.round), machinery)

    def _refuse_missing(self, round_: Round, before: Round | None) -> None:
        """A step that the agent was never let into has nothing to judge, and no reward for it would be fair."""
        record = self.regrade.trial.record
        if before and round_.step and not any(step.name == round_.name for step in record.steps):
            raise UsageError(
                f"{record.trial_id}: its step {before.name} is now good enough to go on, and the agent was never let "
                f"into step {round_.name}; only a new trial can tell"
            )


def _told(record: TrialRecord, round_: Round) -> TrialRecord | StepRecord:
    """What a record says of a round."""
    return next((step for step in record.steps if step.name == round_.name), record) if round_.step else record


def _refuse_services(verification: Verification, told: TrialRecord | StepRecord) -> None:
    """Processes that ran on are in no end state, and what they wrote after the agent's time is: it must not count."""
    processes = verification.work.survivors or (told.end_state.processes if told.end_state else ())
    were_ended = told.verifier_run is not None and told.verifier_run.isolation == "kill"
    if not processes or were_ended or can_do_with_artifacts(verification):
        return
    names = ", ".join((*processes[:_NAMED], *(("…",) if len(processes) > _NAMED else ())))
    raise UsageError(
        f"{verification.spec.trial_id}: needs its services: processes of the agent ran on while it was judged "
        f"({names}), and an end state has files alone, also those that they wrote by then; "
        "only a new trial can be judged, or one of a task with a separate verifier"
    )


def _refuse_stateless(verification: Verification, state: KeptState | None) -> None:
    if state and not state.kept and not can_do_with_artifacts(verification):
        step = f" of step {verification.round.name}" if verification.round.step else ""
        raise UsageError(f"{verification.spec.trial_id}: the end state{step} was not kept: {state.reason}")


def _refuse_tests_in_image(verification: Verification) -> None:
    round_ = verification.round
    if round_.given and choose_isolation(verification) == "separate" and verifier_image(round_):
        raise UsageError(
            f"{verification.spec.trial_id}: its verifier has an image of its own with the tests in it, so other tests "
            "cannot be given to it; name a folder with the whole task by -p"
        )


def _revision(regrade: RegradeSpec, judged: TrialRecord, started: dt.datetime) -> TrialRecord:
    first = regrade.trial.record
    of_verdict = {TOOL_MISSING, NEEDS_SYSTEM, *ABOUT_TIME}
    warnings = (*(warning for warning in first.warnings if warning.code not in of_verdict), *judged.warnings)
    return first.model_copy(
        update={
            "revision": regrade.revision,
            "parent": regrade.parent,
            "verifier_run": judged.verifier_run,
            "provenance": judged.provenance,
            "steps": _steps(first, judged),
            "pass_threshold": judged.pass_threshold,
            "evaluation": judged.evaluation,
            "disputed_reward": judged.disputed_reward,
            "warnings": warnings,
            "failure": None,
            "regrade": _how(regrade, started),
        }
    )


def _steps(first: TrialRecord, judged: TrialRecord) -> tuple[StepRecord, ...]:
    """The steps as they were judged now, and those after them that the agent did and nobody judged any more."""
    rest = first.steps[len(judged.steps) :]
    unjudged = {"verifier_run": None, "provenance": None, "evaluation": None}
    return (*judged.steps, *(step.model_copy(update=unjudged) for step in rest))


def _how(regrade: RegradeSpec, started: dt.datetime) -> Regrade:
    first = regrade.trial.record
    reward = first.evaluation.reward if first.evaluation else None
    return Regrade(
        id=regrade.id,
        seatrial_version=version("seatrial"),
        started_at=started,
        finished_at=max(started, _now()),
        first=FirstVerdict(outcome=first.outcome, reward=reward, broken_verifier=first.has_broken_verifier),
        task_digest=regrade.spec.task_digest,
        tests=regrade.tests,
        options=dict(regrade.options),
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
