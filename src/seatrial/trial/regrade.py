"""A stored trial judged again, without its agent: a new revision of its record.

What is judged is the end state that was kept, or the artifacts where a separate verifier meets nothing else. The
judgement goes through the same steps as in a trial; all else that the record says stays as it was. `jobs/regrade.py`
does this for a whole job.
"""

import datetime as dt
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.model.base import JsonObject
from seatrial.model.evaluation import NEEDS_SYSTEM, EvaluationResult
from seatrial.model.events import unobserved
from seatrial.model.output import RawFile
from seatrial.model.record import FirstVerdict, KeptState, Regrade, StepRecord, TrialRecord
from seatrial.sandbox.api import open_sandbox
from seatrial.sandbox.host.watch import host_watch
from seatrial.trial.events import Observer
from seatrial.trial.judge import Judgement, judge
from seatrial.trial.log import TrialLog
from seatrial.trial.place import Place, find_place, verifier_image
from seatrial.trial.repeats import KeptTrial, judge_kept, kept_verification, with_others
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.verdict import Verdicts, explaining
from seatrial.trial.verification import Verification
from seatrial.trial.verifier import choose_isolation
from seatrial.trial.warnings import ABOUT_TIME, TOOL_MISSING
from seatrial.trial.work import Work
from seatrial.verify.artifacts import PUBLISHED, KeptArtifact, collect_output

_NAMED = 5


@dataclass(frozen=True, slots=True)
class RegradeSpec:
    """A stored trial that is to be judged again."""

    id: str
    """Of the regrade."""
    trial: KeptTrial
    """The first revision, as it ran."""
    parent: str
    """The name of the newest revision."""
    revision: int
    spec: TrialSpec
    """With the task and the options of today."""
    given: Mapping[str | None, tuple[Path, ...]] = field(default_factory=dict)
    """The tests of each round that were taken from the folder `tests`, and not from the task."""
    tests: str | None = None
    options: JsonObject = field(default_factory=dict)
    """Those that are not the job's."""


async def regrade_trial(
    regrade: RegradeSpec, machinery: Machinery, folder: Path, observe: Observer = unobserved
) -> TrialRecord:
    """Judge a stored trial again; logs and files of the verifier go into `folder`. The record is not yet stored.

    Raises UsageError that says why a trial cannot be judged again, TrialError when the machinery fails.
    """
    spec, started = regrade.spec, dt.datetime.now(dt.UTC)
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
        verification = replace(verification, used=notes.verifier_usage)
        told = _told(self.regrade.trial.record, round_)
        _refuse_services(verification, told)
        _refuse_tests_in_image(verification)
        _refuse_stateless(verification, told.end_state)
        notes.agent_result, notes.end_state = verification.agent_result, told.end_state
        with self.log.phase("verify", round_):
            judgement = await with_others(verification, await self._run(verification), self._run, "fresh")
            judgement = await self.verdicts.confirm(verification, judgement, notes)
        with self.log.phase("score", round_):
            return self.verdicts.settle(verification, judgement, notes)

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
    return next((step for step in record.steps if step.name == round_.name), record) if round_.step else record


# What cannot be judged again.


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


# The new revision.


def _revision(regrade: RegradeSpec, judged: TrialRecord, started: dt.datetime) -> TrialRecord:
    first = regrade.trial.record
    of_verdict = {TOOL_MISSING, NEEDS_SYSTEM, *ABOUT_TIME}
    warnings = (*(warning for warning in first.warnings if warning.code not in of_verdict), *judged.warnings)
    return first.model_copy(
        update={
            "revision": regrade.revision,
            "parent": regrade.parent,
            "verifier_usage": judged.verifier_usage,
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
        finished_at=max(started, dt.datetime.now(dt.UTC)),
        first=FirstVerdict(outcome=first.outcome, reward=reward, broken_verifier=first.has_broken_verifier),
        task_digest=regrade.spec.task_digest,
        tests=regrade.tests,
        options=dict(regrade.options),
    )


# A separate verifier meets artifacts alone, and those are kept anyway: no end state is needed for it, as long as the
# output that the task expects is among them.


def can_do_with_artifacts(verification: Verification) -> bool:
    """Whether all that is to be judged is among the artifacts that were kept."""
    if choose_isolation(verification) != "separate":
        return False
    expected = verification.round.judged.output
    return expected.path is None or _holder(expected.path, verification) is not None


async def judge_handed_over(verification: Verification, machinery: Machinery) -> Judgement:
    """Judge the artifacts of a stored trial. Raises TrialError where the machinery fails."""
    work = replace(verification.work, output=_output(verification), survivors=())
    async with open_sandbox(machinery.backend, verification.place.sandbox) as untouched:
        return await judge(replace(verification, work=work), untouched, machinery)


def _output(verification: Verification) -> RawFile | None:
    expected = verification.round.judged.output
    if expected.path is None:
        return None
    holder = _holder(expected.path, verification)
    if holder is None or holder.status == "empty":
        return RawFile(expected.path, "missing")
    return collect_output(_inside(expected.path, holder, verification.work), expected)


def _holder(path: str, verification: Verification) -> KeptArtifact | None:
    """The artifact that has the file at a path, or would have it if it had been there."""
    for artifact in _asked_for(verification):
        whole = artifact.status in ("ok", "empty") and not artifact.exclude
        if whole and (path == artifact.source or path.startswith(f"{artifact.source.rstrip('/')}/")):
            return artifact
    return None


def _asked_for(verification: Verification) -> Iterator[KeptArtifact]:
    """What came of each artifact. There is no manifest where nothing was there, and none of what was not touched."""
    kept = verification.work.kept
    yield from kept
    for spec in (PUBLISHED, *(() if kept else verification.round.artifacts)):
        if spec.service in (None, "main"):
            yield KeptArtifact(source=spec.source, destination="", status="empty", exclude=spec.exclude)


def _inside(path: str, holder: KeptArtifact, work: Work) -> Path:
    below = posixpath.relpath(path, holder.source)
    return work.artifacts / holder.destination / below if below != "." else work.artifacts / holder.destination
