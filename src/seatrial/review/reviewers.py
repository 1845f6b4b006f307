"""Each reviewer: what they tend to say, how long they take, and how often they are right where that is known."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seatrial.model.annotation import Judgment
from seatrial.model.review import ReviewEntry
from seatrial.review.cases import ReviewCase
from seatrial.review.states import is_decided, judgment_of, known_verdict


@dataclass(frozen=True, slots=True)
class ReviewerFigures:
    """One reviewer by their first verdicts. `seconds` is the median time of one, None where nobody took it.

    `calibrated` counts trials of which somebody else has said what is right, and `right` how many of those they judged
    so; to defer is neither.
    """

    reviewer_id: str
    discipline: str | None
    passed: int
    failed: int
    deferred: int
    seconds: float | None
    calibrated: int
    right: int

    @property
    def verdicts(self) -> int:
        """How many trials they looked at."""
        return self.passed + self.failed + self.deferred

    @property
    def calibration(self) -> float | None:
        """The share that they judged right, None where nothing is known to be right."""
        return self.right / self.calibrated if self.calibrated else None


def reviewer_figures(cases: Sequence[ReviewCase]) -> list[ReviewerFigures]:
    """Everybody who gave a verdict of their own, by name."""
    names = sorted({name for case in cases for name in case.review.first})
    return [_figures(name, [case for case in cases if name in case.review.first]) for name in names]


def _figures(name: str, cases: Sequence[ReviewCase]) -> ReviewerFigures:
    said = [case.review.first[name] for case in cases]
    counts = Counter(judgment_of(entry) for entry in said)
    times = [entry.seconds for entry in said if entry.seconds is not None]
    known = [(entry, right) for case, entry in zip(cases, said, strict=True) if (right := _known(case, entry))]
    return ReviewerFigures(
        reviewer_id=name,
        discipline=_discipline(said),
        passed=counts[Judgment.PASS],
        failed=counts[Judgment.FAIL],
        deferred=counts[Judgment.DEFER],
        seconds=statistics.median(times) if times else None,
        calibrated=len(known),
        right=sum(judgment_of(entry) is right for entry, right in known),
    )


def _known(case: ReviewCase, said: ReviewEntry) -> Judgment | None:
    """What is right by somebody else, of a trial that a reviewer has decided."""
    if case.review.gold is None or not is_decided(said):
        return None
    return known_verdict(case.entries, said.reviewer_id)


def _discipline(said: Iterable[ReviewEntry]) -> str | None:
    named = [entry.annotation.reviewer_discipline for entry in said if entry.annotation]
    return next((name for name in reversed(named) if name), None)
