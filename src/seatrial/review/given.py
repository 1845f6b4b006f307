"""What a reviewer says, as it comes from a page, becomes entries of the journal.

The journal decides what an entry is: a first verdict, or a second look of somebody who knows what became of the trial.
"""

import datetime as dt
from collections.abc import Iterable, Sequence
from typing import Annotated, TypeVar

from pydantic import Field

from seatrial.errors import UsageError
from seatrial.model.annotation import Annotation, Judgment
from seatrial.model.base import NonNegative, StrictModel
from seatrial.model.review import (
    EntryId,
    Retraction,
    ReviewContext,
    ReviewEntry,
    ReviewRole,
    Sampling,
    last_words,
    not_taken_back,
)
from seatrial.review.blind import is_revealed
from seatrial.review.categories import category_slug
from seatrial.review.states import review_of

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
