"""One line for a trial that has finished or is started again: columns that align, then the reason.

A long reason is told in full once. Trials that end for the same reason refer to the first of them.
"""

from seatrial.analysis.summary import alike
from seatrial.analysis.tally import SCORED
from seatrial.cli.colours import paint_outcome
from seatrial.model.job import ModelOptions
from seatrial.model.record import TrialRecord
from seatrial.report.reasons import NO_LIMITS, failure_in_words, reason, remarks
from seatrial.report.text import format_duration, format_reward, harmless
from seatrial.trial.events import RolloutFinished, TrialPassedOver, TrialRetried

_OUTCOME_WIDTH = len("infrastructure_error")
_REWARD_WIDTH, _TIME_WIDTH = 6, 8
_LONG = 60


class TrialLines:
    """Writes the lines of one job. `limits` are those of its models."""

    def __init__(self, limits: ModelOptions = NO_LIMITS) -> None:
        self._limits = limits
        self._first: dict[str, str] = {}

    def finished(self, record: TrialRecord) -> str:
        """A finished trial with the reason for its outcome."""
        return self._columns_of(record) + self._explained(record.trial_id, reason(record, self._limits))

    def noteworthy(self, record: TrialRecord) -> str | None:
        """A finished trial that would be lost among counts: one that was not scored, or one with remarks.

        None for all others, and for one that has the same long reason as an earlier one.
        """
        why = reason(record, self._limits) if record.outcome not in SCORED else "; ".join(remarks(record))
        if not why or self._first.get(alike(why), record.trial_id) != record.trial_id:
            return None
        return self._columns_of(record) + self._explained(record.trial_id, why)

    def rollout(self, event: RolloutFinished) -> str:
        """A finished rollout."""
        columns = _columns(event.outcome or "not judged", format_reward(event.reward), format_duration(event.seconds))
        return columns + self._explained(event.rollout_id, event.reason)

    def noteworthy_rollout(self, event: RolloutFinished) -> str | None:
        """A finished rollout with a reason that has not been told yet."""
        if not event.reason or self._first.get(alike(event.reason), event.rollout_id) != event.rollout_id:
            return None
        return self.rollout(event)

    def retried(self, event: TrialRetried) -> str:
        """A trial that will be started again."""
        columns = _columns("trying again", "", f"try {event.tries + 1}")
        return columns + self._explained(event.trial_id, failure_in_words(event.failure))

    def passed_over(self, event: TrialPassedOver) -> str:
        """A trial that could not be judged again."""
        return _columns("not judged again", "", "") + self._explained(event.trial_id, event.reason)

    def _columns_of(self, record: TrialRecord) -> str:
        judged = record.evaluation if record.outcome != "verifier_error" else None
        reward = format_reward(judged.reward if judged else None)
        return _columns(record.outcome, reward, format_duration(_took(record)))

    def _explained(self, trial_id: str, why: str) -> str:
        if not why:
            return harmless(trial_id)
        first = self._first.get(alike(why))
        if first is None and len(why) > _LONG:
            self._first[alike(why)] = trial_id
        told = why if first is None else "the same again" if first == trial_id else f"the same as {first}"
        return harmless(f"{trial_id}: {told}")


def _columns(outcome: str, reward: str, time: str) -> str:
    space = " " * (_OUTCOME_WIDTH - len(outcome))
    return f"{paint_outcome(outcome)}{space} {reward:>{_REWARD_WIDTH}} {time:>{_TIME_WIDTH}}  "


def _took(record: TrialRecord) -> float | None:
    if record.regrade:
        return (record.regrade.finished_at - record.regrade.started_at).total_seconds()
    started = min((phase.started_at for phase in record.times), default=None)
    ended = max((phase.finished_at for phase in record.times), default=None)
    return (ended - started).total_seconds() if started and ended else None
