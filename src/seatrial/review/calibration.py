"""How often a reviewer is right about trials whose verdict is known."""

from dataclasses import dataclass

from seatrial.analysis.reviewed import Reviews
from seatrial.model.review import first_words
from seatrial.review.states import is_decided, judgment_of, known_verdict


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of `judged` trials with a known verdict, a reviewer was `right` about so many, before anything was revealed."""

    judged: int
    right: int


def calibration_of(reviewer: str, reviews: Reviews) -> Calibration:
    """The calibration of a reviewer. Deferrals do not count, nor what is known because the reviewer said so."""
    said = []
    for entries in reviews.values():
        known = known_verdict(entries, reviewer)
        first = first_words(entries).get(reviewer) if known else None
        if first and is_decided(first):
            said.append(judgment_of(first) is known)
    return Calibration(len(said), sum(said))
