"""Entries of a journal, for tests of what is made of them."""

import datetime as dt
from itertools import count
from typing import Any

from seatrial.model.annotation import Annotation, Judgment
from seatrial.model.review import Retraction, ReviewEntry, Sampling

NOON = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)
_numbers = count(1)


def said(trial_id: str, reviewer: str, judgment: str, **more: Any) -> ReviewEntry:
    """A verdict; each one is a second later than the one that was made before it."""
    number = next(_numbers)
    note = Annotation(
        reviewer_id=reviewer,
        timestamp=NOON + dt.timedelta(seconds=number),
        judgment=Judgment(judgment),
        categories=more.pop("categories", []),
        notes=more.pop("notes", None),
    )
    return ReviewEntry(**{"id": f"{number:016x}", "trial_id": trial_id, "annotation": note, **more})


def taken_back(entry: ReviewEntry) -> ReviewEntry:
    """That its reviewer takes a verdict back."""
    number = next(_numbers)
    gone = Retraction(entry=entry.key, reviewer_id=entry.reviewer_id, timestamp=NOON + dt.timedelta(seconds=number))
    return ReviewEntry(id=f"{number:016x}", trial_id=entry.trial_id, retraction=gone)


def drawn(stratum: str, probability: float) -> Sampling:
    return Sampling(stratum=stratum, probability=probability)
