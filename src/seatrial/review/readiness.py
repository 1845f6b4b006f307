"""May a verdict of people, or a judge that learned from them, enter an aggregate? Gates, and what is missing.

Each gate is open or closed, or cannot tell yet; all of them have to be open.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from seatrial.review.agreement import ReviewFigures
from seatrial.review.reviewers import ReviewerFigures

GateName = Literal["annotators", "agreement", "interval_width", "calibration_trials", "calibration_agreement"]
GateState = Literal["open", "closed", "unknown"]
Relation = Literal["at least", "below"]

LEAST_ANNOTATORS = 2
LEAST_AGREEMENT = 0.8
WIDEST_INTERVAL = 0.2
LEAST_CALIBRATED = 12
LEAST_CALIBRATION = 0.8


@dataclass(frozen=True, slots=True)
class ReadinessGate:
    """One condition: what was found, and what is needed. `found` is None where there is nothing to be judged by."""

    name: GateName
    state: GateState
    found: float | None
    needed: float
    relation: Relation
    reason: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """All gates, in order."""

    gates: tuple[ReadinessGate, ...]

    @property
    def state(self) -> GateState:
        """`open` where all gates are; `closed` where one is; otherwise nobody can tell yet."""
        states = {gate.state for gate in self.gates}
        if "closed" in states:
            return "closed"
        return "unknown" if "unknown" in states else "open"

    @property
    def reasons(self) -> tuple[str, ...]:
        """The names of the gates that are not open, for programs."""
        return tuple(gate.name for gate in self.gates if gate.state != "open")


def readiness(figures: ReviewFigures) -> Readiness:
    """Whether reviews are good enough to build on."""
    return Readiness(tuple(_gates(figures)))


def _gates(figures: ReviewFigures) -> Iterator[ReadinessGate]:
    first = figures.agreement.first
    why_not = figures.agreement.reason
    wide = "there are too few trials of one kind for an interval" if first else why_not
    people = float(figures.annotators) if figures.annotators else None
    fewest = min(figures.reviewers, key=lambda each: each.calibrated, default=None)
    tested = [each for each in figures.reviewers if each.calibration is not None]
    worst = min(tested, key=lambda each: each.calibration or 0.0, default=None)
    yield _gate("annotators", _Found(people, "nobody has reviewed anything"), LEAST_ANNOTATORS)
    yield _gate("agreement", _Found(first.value if first else None, why_not), LEAST_AGREEMENT)
    yield _gate("interval_width", _Found(first.width if first else None, wide), WIDEST_INTERVAL, "below")
    yield _gate("calibration_trials", _of(fewest, "calibrated"), LEAST_CALIBRATED)
    yield _gate("calibration_agreement", _of(worst, "calibration"), LEAST_CALIBRATION)


@dataclass(frozen=True, slots=True)
class _Found:
    """A number with why there is none; where it is that of one reviewer, with their name."""

    value: float | None
    why_not: str
    reviewer: str | None = None


def _of(reviewer: ReviewerFigures | None, name: Literal["calibrated", "calibration"]) -> _Found:
    """A number of the reviewer for whom it is lowest: everybody has to be calibrated."""
    if reviewer is None:
        return _Found(None, "nobody has judged a trial that is known to be right or wrong")
    return _Found(float(getattr(reviewer, name)), "", reviewer.reviewer_id)


def _gate(name: GateName, found: _Found, needed: float, relation: Relation = "at least") -> ReadinessGate:
    if found.value is None:
        return ReadinessGate(name, "unknown", None, needed, relation, found.why_not)
    is_open = found.value >= needed if relation == "at least" else found.value < needed
    whose = f" by {found.reviewer}" if found.reviewer else ""
    reason = f"found {found.value:.3g}{whose}, needed {relation} {needed:g}"
    return ReadinessGate(name, "open" if is_open else "closed", found.value, needed, relation, reason)
