"""What all verdicts on a trial amount to: agreed, to be settled, settled, or settled and still in doubt."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from seatrial.analysis.reviewed import Reviews
from seatrial.model.annotation import Judgment
from seatrial.model.review import ReviewEntry, first_words, last_words, not_taken_back

ReviewState = Literal["open", "single", "agreed", "needs", "adjudicated", "contested"]
"""`open`: nobody has decided. `single`: one reviewer has. `agreed`: all who did say the same. `needs`: they do not, and
it is to be settled. `adjudicated`: somebody settled it. `contested`: a verdict after that says otherwise.
"""


@dataclass(frozen=True, slots=True)
class TrialReview:
    """The reviews of one trial. `first` is what reviewers said on their own, `last` what they think now, deferrals
    included. `verdict` is what counts as the opinion of people, None where there is none; `gold` is known to be right.
    """

    trial_id: str
    first: dict[str, ReviewEntry]
    last: dict[str, ReviewEntry]
    state: ReviewState
    verdict: Judgment | None
    gold: Judgment | None


def review_of(trial_id: str, entries: Iterable[ReviewEntry]) -> TrialReview:
    """What the entries about one trial amount to."""
    every = not_taken_back(entries)
    last = last_words(every)
    state, verdict = _settled(last, [each for each in every if each.role == "adjudication"])
    gold = [each for each in every if each.role == "gold"]
    return TrialReview(trial_id, first_words(every), last, state, verdict, judgment_of(gold[-1]) if gold else None)


def unsettled(reviews: Reviews) -> list[str]:
    """The trials on which people disagree, or whose settlement somebody doubts."""
    states = {trial_id: review_of(trial_id, entries).state for trial_id, entries in reviews.items()}
    return [trial_id for trial_id, state in states.items() if state in ("needs", "contested")]


def known_verdict(entries: Iterable[ReviewEntry], reviewer: str) -> Judgment | None:
    """What is known to be right of a trial by somebody else than a reviewer, None where nothing is."""
    said = [each for each in not_taken_back(entries) if each.role == "gold" and each.reviewer_id != reviewer]
    decided = [judgment_of(each) for each in said if is_decided(each)]
    return decided[-1] if decided else None


def judgment_of(entry: ReviewEntry) -> Judgment:
    """The judgment of a verdict. A retraction has none."""
    assert entry.annotation is not None  # noqa: S101 - callers choose among verdicts
    return entry.annotation.judgment


def is_decided(entry: ReviewEntry) -> bool:
    """Whether a verdict says pass or fail; one that defers leaves that to others."""
    return judgment_of(entry) is not Judgment.DEFER


def _settled(last: dict[str, ReviewEntry], adjudications: list[ReviewEntry]) -> tuple[ReviewState, Judgment | None]:
    decided = [each for each in last.values() if is_decided(each)]
    settled = [each for each in adjudications if is_decided(each)]
    if settled:
        verdict, since = judgment_of(settled[-1]), _moment(settled[-1])
        later = [each for each in decided if _moment(each) > since and judgment_of(each) is not verdict]
        others = {each.reviewer_id for each in settled if judgment_of(each) is not verdict}
        is_contested = bool(later or others - {settled[-1].reviewer_id})
        return ("contested", None) if is_contested else ("adjudicated", verdict)
    said = {judgment_of(each) for each in decided}
    if len(said) > 1:
        return "needs", None
    if not said:
        return "open", None
    return ("single" if len(decided) == 1 else "agreed"), said.pop()


def _moment(entry: ReviewEntry) -> float:
    assert entry.annotation is not None  # noqa: S101 - callers choose among verdicts
    return entry.annotation.timestamp.timestamp()
