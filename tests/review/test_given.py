import datetime as dt

import pytest
from pydantic import ValidationError

from seatrial.errors import UsageError
from seatrial.model.review import ReviewContext, last_words
from seatrial.review.given import (
    GivenUndo,
    GivenVerdict,
    adjudication_entry,
    moment_after,
    undo_entry,
    verdict_entry,
)
from seatrial.review.states import review_of
from tests.review.journals import drawn, said, taken_back

ID = "0123456789abcdef"
CONTEXT = ReviewContext(revision=2)


def verdict(judgment="pass", **more):
    return GivenVerdict(**{"id": ID, "reviewer": " ada ", "judgment": judgment, **more})


def entry_of(entries=(), **more):
    return verdict_entry(verdict(**more), "t", entries, CONTEXT, drawn("random", 0.5))


def test_a_verdict_has_all_that_it_came_about_by():
    words = {"discipline": " hydraulics ", "notes": " leaks ", "categories": ("Wrong Unit/kN", "!", "wrong unit/kN")}
    entry = entry_of(judgment="fail", seconds=3.5, **words)
    assert entry.annotation is not None
    assert (entry.id, entry.trial_id, entry.role, entry.blind, entry.seconds) == (ID, "t", "first", True, 3.5)
    assert (entry.context, entry.sampling) == (CONTEXT, drawn("random", 0.5))
    note = entry.annotation
    assert (note.reviewer_id, note.reviewer_discipline, note.judgment) == ("ada", "hydraulics", "fail")
    assert (note.notes, note.categories) == ("leaks", ["wrong_unit/kn"])


def test_a_verdict_is_blind_only_for_those_who_have_never_given_one():
    own, other = said("t", "ada", "pass"), said("t", "bob", "pass")
    gone = taken_back(own)
    told = {name: entry_of(entries) for name, entries in {"other": [other], "own": [own], "gone": [own, gone]}.items()}
    assert {name: (entry.role, entry.blind) for name, entry in told.items()} == {
        "other": ("first", True),
        "own": ("second_look", False),
        "gone": ("first", False),
    }
    assert not entry_of(blind=False).blind


def test_what_is_said_later_stands_even_if_the_clock_was_set_back():
    ahead = said("t", "ada", "pass", minute=10**9), said("t", "bob", "fail", minute=10**9 + 1)
    changed = entry_of(ahead, judgment="fail")
    assert last_words([*ahead, changed])["ada"] is changed
    settled = adjudication_entry(verdict("pass", notes="why"), "t", ahead, CONTEXT)
    assert review_of("t", [*ahead, settled]).state == "adjudicated"
    end = dt.datetime.max.replace(tzinfo=dt.UTC)
    assert ahead[0].annotation
    last = ahead[0].model_copy(update={"annotation": ahead[0].annotation.model_copy(update={"timestamp": end})})
    assert moment_after([last]) == end
    assert moment_after([]) <= dt.datetime.now(dt.UTC)


def test_only_a_disagreement_is_settled_and_only_with_a_reason():
    one, other = said("t", "bob", "pass"), said("t", "eve", "fail")
    entry = adjudication_entry(verdict(notes="the norm says so"), "t", [one, other], CONTEXT)
    assert (entry.role, entry.blind, entry.sampling) == ("adjudication", False, None)
    with pytest.raises(UsageError, match="nothing to settle: the reviews are 'single'"):
        adjudication_entry(verdict(notes="why"), "t", [one], CONTEXT)
    with pytest.raises(UsageError, match="needs a reason"):
        adjudication_entry(verdict(notes=" \n"), "t", [one, other], CONTEXT)
    with pytest.raises(UsageError, match="by pass or fail"):
        adjudication_entry(verdict("defer", notes="why"), "t", [one, other], CONTEXT)


def test_only_ones_own_verdict_is_taken_back_and_only_once():
    own, other = said("t", "ada", "pass"), said("t", "bob", "pass")
    undo = undo_entry(GivenUndo(id=ID, reviewer="ada", entry=own.key), "t", [own, other])
    assert undo.retraction is not None
    assert (undo.retraction.entry, undo.reviewer_id) == (own.key, "ada")
    for entries, entry in (([own, other], other.key), ([own, taken_back(own)], own.key), ([], own.key)):
        with pytest.raises(UsageError, match="ada has no such verdict"):
            undo_entry(GivenUndo(id=ID, reviewer="ada", entry=entry), "t", entries)


@pytest.mark.parametrize(
    "more",
    [
        {"reviewer": " "},
        {"reviewer": "x" * 201},
        {"id": "xyz"},
        {"judgment": "maybe"},
        {"notes": "x" * 20_001},
        {"seconds": -1.0},
        {"reward": 1.0},
    ],
)
def test_what_no_page_of_ours_sends_is_refused(more):
    with pytest.raises(ValidationError):
        verdict(**more)
