"""Verdicts of people on a trial: what they amount to, and how a new one enters the journal.

A trial's verdicts agree, have to be settled, were settled, or are still in doubt after that.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

from pydantic import Field

from seatrial.analysis.loaded import Reviews
from seatrial.errors import UsageError
from seatrial.model.base import NonNegative, StrictModel
from seatrial.model.evaluation import Annotation, Judgment, category_slug
from seatrial.model.record import TrialRecord
from seatrial.model.review import (
    EntryId,
    Retraction,
    ReviewContext,
    ReviewEntry,
    ReviewRole,
    Sampling,
    first_words,
    last_words,
    not_taken_back,
)
from seatrial.review.blind import is_revealed

ReviewState = Literal["open", "single", "agreed", "needs", "adjudicated", "contested"]
"""`open`: nobody has decided. `single`: one reviewer has. `agreed`: all who did say the same. `needs`: they do not, and
it is to be settled. `adjudicated`: somebody settled it. `contested`: a verdict after that says otherwise.
"""


@dataclass(frozen=True, slots=True)
class TrialReview:
    """The reviews of one trial, by reviewer, deferrals included."""

    trial_id: str
    first: dict[str, ReviewEntry]
    """What reviewers said on their own."""
    last: dict[str, ReviewEntry]
    """What they think now."""
    state: ReviewState
    verdict: Judgment | None
    """The opinion of people, if they have one."""
    gold: Judgment | None
    """Known to be right."""


def review_of(trial_id: str, entries: Iterable[ReviewEntry]) -> TrialReview:
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


def used_categories(entries: Iterable[ReviewEntry]) -> list[str]:
    """The categories of all verdicts that stand, those that are used most first."""
    said = (each.annotation for each in not_taken_back(entries))
    counts = Counter(name for each in said if each for name in {*map(category_slug, each.categories)} if name)
    return sorted(counts, key=lambda name: (-counts[name], name))


def context_of(record: TrialRecord) -> ReviewContext:
    return ReviewContext(
        task_digest=record.task.digest,
        tests_digest=record.provenance.tests_digest if record.provenance else None,
        revision=record.revision,
    )


# Entries of what a page sends. The journal decides what an entry is: a first verdict, or a second look of somebody who
# knows what became of the trial.

Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
_TICK = dt.timedelta(microseconds=1)
_LATEST = dt.datetime.max.replace(tzinfo=dt.UTC) - _TICK
_ADJUDICATED = ("needs", "contested", "adjudicated")


class GivenVerdict(StrictModel):
    """A verdict from a page. `id` is made there, so that the same one sent twice is known.

    `blind` says that nothing was shown before; it is believed only of somebody to whom nothing was.
    """

    id: EntryId
    reviewer: Name
    discipline: Annotated[str, Field(max_length=200)] = ""
    judgment: Annotated[Judgment, Field(strict=False)]
    categories: Annotated[tuple[str, ...], Field(max_length=50)] = ()
    notes: Annotated[str, Field(max_length=20_000)] = ""
    blind: bool = True
    seconds: NonNegative | None = None


class GivenUndo(StrictModel):
    """A reviewer takes `entry` back."""

    id: EntryId
    reviewer: Name
    entry: EntryId


Given = TypeVar("Given", GivenVerdict, GivenUndo)


def verdict_entry(
    given: GivenVerdict,
    trial_id: str,
    entries: Sequence[ReviewEntry],
    context: ReviewContext,
    sampling: Sampling | None,
) -> ReviewEntry:
    """The entry of a verdict on a trial about which `entries` are in the journal."""
    role: ReviewRole = "second_look" if given.reviewer.strip() in last_words(entries) else "first"
    blind = given.blind and not is_revealed(given.reviewer.strip(), entries)
    made = _entry(given, trial_id, role, context, moment_after(entries))
    return made.model_copy(update={"blind": blind, "sampling": sampling})


def adjudication_entry(
    given: GivenVerdict, trial_id: str, entries: Sequence[ReviewEntry], context: ReviewContext
) -> ReviewEntry:
    """The entry of a verdict that settles a disagreement. Raises UsageError without one, or without a reason."""
    state = review_of(trial_id, entries).state
    if state not in _ADJUDICATED:
        raise UsageError(f"there is nothing to settle: the reviews are {state!r}, expected a disagreement")
    if not given.notes.strip():
        raise UsageError("a verdict that settles a disagreement needs a reason; write it into the note")
    if given.judgment is Judgment.DEFER:
        raise UsageError("a disagreement is settled by pass or fail; leave it as it is to defer")
    return _entry(given, trial_id, "adjudication", context, moment_after(entries))


def undo_entry(given: GivenUndo, trial_id: str, entries: Sequence[ReviewEntry]) -> ReviewEntry:
    """The entry that takes a verdict back. Raises UsageError for one that is not the reviewer's, or stands no more."""
    reviewer = given.reviewer.strip()
    if not any(each.key == given.entry and each.reviewer_id == reviewer for each in not_taken_back(entries)):
        raise UsageError(f"{given.entry}: {reviewer} has no such verdict on this trial that could be taken back")
    taken = Retraction(entry=given.entry, reviewer_id=reviewer, timestamp=_now())
    return ReviewEntry(id=given.id, trial_id=trial_id, retraction=taken)


def moment_after(entries: Iterable[ReviewEntry]) -> dt.datetime:
    """The moment of something that is said now, in answer to `entries`.

    What stands is the last that somebody said. Clocks are set back, and those of two machines differ; so it is never
    before what it comes after.
    """
    latest = max((each.annotation.timestamp for each in entries if each.annotation), default=None)
    now = _now()
    return now if latest is None or latest < now else min(latest, _LATEST).astimezone(dt.UTC) + _TICK


def _entry(
    given: GivenVerdict, trial_id: str, role: ReviewRole, context: ReviewContext, moment: dt.datetime
) -> ReviewEntry:
    slugs = (category_slug(each) for each in given.categories)
    said = Annotation(
        reviewer_id=given.reviewer.strip(),
        reviewer_discipline=given.discipline.strip() or None,
        timestamp=moment,
        judgment=given.judgment,
        categories=[each for each in dict.fromkeys(slugs) if each],
        notes=given.notes.strip() or None,
    )
    return ReviewEntry(
        id=given.id, trial_id=trial_id, annotation=said, role=role, seconds=given.seconds, context=context
    )


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


# Calibration


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
