"""The record of an imported trial: what its source says, in our terms, and nothing that it does not say."""

from dataclasses import dataclass

from seatrial.integrations.foreign import ForeignTrial, ForeignVerdict
from seatrial.model.base import JsonObject
from seatrial.model.evaluation import ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.model.imported import IMPORTED_BACKEND, UNKNOWN
from seatrial.model.record import AgentRef, SandboxRef, StepRecord, TaskRef, TrialRecord
from seatrial.model.trial_ids import trial_id

_SANDBOX = SandboxRef(backend=IMPORTED_BACKEND, image=UNKNOWN, network=UNKNOWN, reproducible=False)
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class RewardRange:
    """How rewards of a source become rewards from 0 to 1: a range of theirs is mapped onto it, or they are kept."""

    low: float = 0.0
    high: float = 1.0

    @property
    def is_plain(self) -> bool:
        """Whether rewards are kept as they are."""
        return (self.low, self.high) == (0.0, 1.0)

    def has(self, score: float) -> bool:
        """Whether a reward lies in the range, or beside it by no more than sums of weights are off."""
        slack = _ROUNDING * (self.high - self.low)
        return self.low - slack <= score <= self.high + slack

    def reward(self, score: float) -> float:
        """A reward from 0 to 1, of one that lies in the range."""
        if self.is_plain:
            return min(1.0, max(0.0, score + 0.0))
        return min(1.0, max(0.0, (score - self.low) / (self.high - self.low)))


@dataclass(frozen=True, slots=True)
class JobPlace:
    """What a trial is called in its job."""

    job: str
    job_id: str | None
    agent: str
    attempt: int
    pass_threshold: float


def record_of(trial: ForeignTrial, place: JobPlace, scale: RewardRange) -> TrialRecord:
    """The record of a trial."""
    task, agent = trial.task, trial.agent
    return TrialRecord(
        trial_id=trial_id(task.id, place.agent, place.attempt),
        job=place.job,
        job_id=place.job_id,
        task=TaskRef(id=task.id, name=task.name, digest=task.digest, source=task.source),
        agent=AgentRef(name=agent.name, version=agent.version, model=agent.model),
        sandbox=_SANDBOX,
        attempt=place.attempt,
        times=tuple(trial.times),
        agent_result=trial.agent_result,
        model_usage=trial.usage,
        steps=tuple(
            StepRecord(name=step.name, evaluation=_evaluation(step.verdict, scale) if step.verdict else None)
            for step in trial.steps
        ),
        pass_threshold=place.pass_threshold,
        evaluation=_evaluation(trial.verdict, scale) if trial.verdict else None,
        failure=trial.failure,
        imported=trial.origin,
    )


def _evaluation(verdict: ForeignVerdict, scale: RewardRange) -> EvaluationResult:
    """A verdict as it is stored. Nobody looked at an output here, so that nothing speaks against it."""
    score, fault = verdict.score, verdict.fault
    if score is not None and not scale.has(score):
        score, fault = None, f"its reward {score:g} is not between {scale.low:g} and {scale.high:g}"
    notes = [f"note: {line}" for line in verdict.notes]
    if score is not None and not scale.is_plain:
        notes.append(f"note: {score:g} of the range from {scale.low:g} to {scale.high:g} was mapped onto 0 to 1")
    faults = [f"verifier_error: {fault}"] if score is None else []
    tag = ErrorTag(category="verifier_error", description=fault, source=ErrorSource.MECHANICAL)
    return EvaluationResult(
        reward=0.0 if score is None else scale.reward(score),
        validity=ValidityCheck(
            output_parseable=True, schema_valid=True, verifier_completed=score is not None, errors=faults + notes
        ),
        breakdown=_parts(verdict) or None,
        error_taxonomy=[tag] if score is None else None,
    )


def _parts(verdict: ForeignVerdict) -> JsonObject:
    return dict(verdict.parts)
