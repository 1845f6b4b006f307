"""Annotation: one reviewer's verdict, with a time everyone can place."""

import datetime as dt
from typing import Any

import pytest
from pydantic import ValidationError

from seatrial.model.annotation import Annotation, Judgment
from tests.model.samples import NOON, annotation


@pytest.mark.parametrize("judgment", ["pass", "fail", "defer"])
def test_a_judgment_is_read_from_its_word(judgment: str):
    made = annotation(judgment=judgment)
    assert made.judgment is Judgment(judgment)
    assert Annotation.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    "values",
    [
        {"judgment": "PASS"},
        {"judgment": "maybe"},
        {"judgment": None},
        {"judgment": True},
        {"reviewer_id": ""},
        {"timestamp": NOON.replace(tzinfo=None)},
        {"timestamp": NOON.isoformat()},
        {"timestamp": NOON.date()},
        {"categories": ("unit",)},
        {"categories": [1]},
        {"notes": 5},
        {"verdict": "pass"},
    ],
    ids=str,
)
def test_what_is_not_a_verdict_is_refused(values: dict[str, Any]):
    with pytest.raises(ValidationError):
        annotation(**values)


def test_a_reviewer_need_give_no_more_than_a_verdict():
    made = Annotation(reviewer_id="ann", timestamp=NOON, judgment=Judgment.DEFER)
    assert (made.reviewer_discipline, made.categories, made.notes) == (None, [], None)


@pytest.mark.parametrize("hours", [-12, 0, 14])
def test_the_time_keeps_the_reviewers_offset(hours: int):
    when = dt.datetime(2026, 3, 1, 9, 30, tzinfo=dt.timezone(dt.timedelta(hours=hours)))
    again = Annotation.model_validate_json(annotation(timestamp=when).model_dump_json())
    assert again.timestamp == when
    assert again.timestamp.utcoffset() == when.utcoffset()


@pytest.mark.parametrize("seconds", [30, -30, 19 * 60 + 32])
def test_a_time_json_cannot_hold_is_refused_or_kept(seconds: int):
    """Old local times have offsets such as +00:19:32; to cut off the seconds would move the time."""
    odd = NOON.replace(tzinfo=dt.timezone(dt.timedelta(seconds=seconds)))
    try:
        made = annotation(timestamp=odd)
    except ValidationError:
        return
    assert Annotation.model_validate_json(made.model_dump_json()) == made
