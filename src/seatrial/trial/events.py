"""Events: what happens while trials run, for a progress display, a log, a program.

Nothing depends on them: an observer that is slow or broken must not change a result.
"""

from dataclasses import dataclass

from seatrial.model import events
from seatrial.model.events import Notice
from seatrial.model.outcome import Outcome
from seatrial.model.record import (
    Failure,
    Phase,
    TrialRecord,
)


@dataclass(frozen=True, slots=True)
class TrialStarted:
    """A trial has been given its turn, for the first time when `tries` is 1; `node` is where, if there are several."""

    trial_id: str
    task_id: str
    agent: str
    tries: int = 1
    node: str | None = None


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A trial has come to a phase, of a step when it has several."""

    trial_id: str
    phase: Phase
    step: str | None = None


@dataclass(frozen=True, slots=True)
class TrialRetried:
    """The machinery failed and the trial will be started again."""

    trial_id: str
    tries: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class TrialFinished:
    """A trial's record has been stored."""

    record: TrialRecord


@dataclass(frozen=True, slots=True)
class TrialPassedOver:
    """A trial could not be judged again: its record stays as it is."""

    trial_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class RolloutFinished:
    """A rollout of an environment has ended, of which there need be no record; without an `outcome`, unjudged."""

    rollout_id: str
    agent: str
    outcome: Outcome | None
    reward: float | None = None
    seconds: float | None = None
    reason: str = ""


Event = TrialStarted | PhaseStarted | TrialRetried | TrialFinished | TrialPassedOver | RolloutFinished | Notice
Observer = events.Observer[Event]


def notices_once(observe: Observer) -> Observer:
    """An observer that gets each notice once, however many trials have found the same thing."""
    told: set[str] = set()

    def observe_once(event: Event) -> None:
        if isinstance(event, Notice):
            if event.text in told:
                return
            told.add(event.text)
        observe(event)

    return observe_once
