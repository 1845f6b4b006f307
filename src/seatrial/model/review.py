"""A line of the journal of reviews: a verdict with how it came about, or that one is taken back.

The journal only grows. What stands is worked out from all of its lines, whatever order they were merged in.
"""

import hashlib
import secrets
from collections.abc import Iterable
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from seatrial.model.base import NonNegative, NonNegativeInt, Sha256, StrictModel, Timestamp
from seatrial.model.evaluation import Annotation

ReviewRole = Literal["first", "second_look", "adjudication", "gold"]
"""Why a verdict was given.

`first`: without knowing what others said. `second_look`: by the same reviewer, after that was revealed. `adjudication`:
to settle a disagreement. `gold`: known to be right, to calibrate reviewers by.
"""

_ROLES: tuple[ReviewRole, ...] = get_args(ReviewRole)

EntryId = Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]
Probability = Annotated[float, Field(gt=0.0, le=1.0)]


class ReviewContext(StrictModel):
    """What the reviewer looked at: which content of the task, judged by which tests, in which revision of the trial."""

    task_digest: Sha256 | None = None
    tests_digest: Sha256 | None = None
    rubric_digest: Sha256 | None = None
    revision: NonNegativeInt = 0


class Sampling(StrictModel):
    """Why the trial was in the queue, and how likely it was to get there, so that estimates can be weighted back.

    `where` is the filter of a queue that had only some trials of the job in it; others had no chance to get there.
    """

    stratum: Annotated[str, Field(min_length=1)]
    probability: Probability
    where: Annotated[str, Field(min_length=1)] | None = None


class Retraction(StrictModel):
    """A reviewer takes back a verdict of their own."""

    entry: EntryId
    reviewer_id: Annotated[str, Field(min_length=1)]
    timestamp: Timestamp


class ReviewEntry(StrictModel):
    """One line: an annotation or a retraction, never both, never neither.

    `blind` says that neither reward nor model nor the verdicts of others were shown before. `seconds` is how long the
    reviewer had the trial before them. Lines of before there were ids have none; `key` is the same for all copies.
    """

    id: EntryId | None = None
    trial_id: Annotated[str, Field(min_length=1)]
    annotation: Annotation | None = None
    retraction: Retraction | None = None
    role: ReviewRole = "first"
    blind: bool = False
    seconds: NonNegative | None = None
    context: ReviewContext | None = None
    sampling: Sampling | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if (self.annotation is None) == (self.retraction is None):
            raise ValueError("an entry has exactly one of annotation and retraction")
        return self

    @property
    def key(self) -> str:
        """What tells this entry from all others; copies of a journal have the same."""
        return self.id or hashlib.sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def reviewer_id(self) -> str:
        """Who says so."""
        said = self.annotation or self.retraction
        assert said is not None  # noqa: S101 - the validator above
        return said.reviewer_id


def new_entry_id() -> str:
    """An id that no other entry has, on whichever machine it is made."""
    return secrets.token_hex(8)


def not_taken_back(entries: Iterable[ReviewEntry]) -> list[ReviewEntry]:
    """The verdicts among entries that their reviewers have not taken back, the earliest first.

    Those of one moment are in an order of their own, so that it does not matter in which one journals were merged.
    """
    every = list(entries)
    taken_back = {(each.retraction.entry, each.retraction.reviewer_id) for each in every if each.retraction}
    kept = [each for each in every if each.annotation and (each.key, each.reviewer_id) not in taken_back]
    return sorted(kept, key=_place)


def last_words(entries: Iterable[ReviewEntry]) -> dict[str, ReviewEntry]:
    """What each reviewer of a trial thinks now: the last verdict of theirs that stands, on their own behalf."""
    own = (each for each in not_taken_back(entries) if each.role in ("first", "second_look"))
    return {each.reviewer_id: each for each in own}


def first_words(entries: Iterable[ReviewEntry]) -> dict[str, ReviewEntry]:
    """What each reviewer of a trial thought before they knew of others: their last `first` verdict that stands."""
    return {each.reviewer_id: each for each in not_taken_back(entries) if each.role == "first"}


def _place(entry: ReviewEntry) -> tuple[float, int, str]:
    assert entry.annotation is not None  # noqa: S101 - only verdicts are sorted
    return entry.annotation.timestamp.timestamp(), _ROLES.index(entry.role), entry.key
