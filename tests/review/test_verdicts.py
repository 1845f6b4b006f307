"""What all verdicts on a trial amount to."""

import datetime as dt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from seatrial.errors import UsageError
from seatrial.model.evaluation import Judgment, category_slug
from seatrial.model.review import ReviewContext, ReviewEntry, last_words
from seatrial.review.agreement import reviewer_figures
from seatrial.review.cases import cases_of
from seatrial.review.verdicts import (
    Calibration,
    GivenUndo,
    GivenVerdict,
    ReviewState,
    adjudication_entry,
    calibration_of,
    moment_after,
    review_of,
    undo_entry,
    used_categories,
    verdict_entry,
)
from tests.analysis.memory_jobs import memory_job, trial
from tests.model.test_review import entry, retraction
from tests.review.journals import drawn, said, taken_back

PASS, FAIL, DEFER = Judgment.PASS, Judgment.FAIL, Judgment.DEFER


def state_of(*entries) -> tuple[ReviewState, Judgment | None]:
    found = review_of("add.noop.1", entries)
    return found.state, found.verdict


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], ("open", None)),
        ([entry("ann", DEFER)], ("open", None)),
        ([entry("ann", PASS)], ("single", PASS)),
        ([entry("ann", PASS), entry("bob", DEFER)], ("single", PASS)),
        ([entry("ann", FAIL), entry("bob", FAIL)], ("agreed", FAIL)),
        ([entry("ann", PASS), entry("bob", FAIL)], ("needs", None)),
        ([entry("ann", PASS), entry("bob", FAIL), entry("bob", PASS, 5, "second_look")], ("agreed", PASS)),
        ([entry("ann", PASS), entry("bob", FAIL), entry("eve", FAIL, 5, "adjudication")], ("adjudicated", FAIL)),
        ([entry("ann", PASS), entry("bob", FAIL), entry("eve", DEFER, 5, "adjudication")], ("needs", None)),
    ],
)
def test_states(entries, expected):
    assert state_of(*entries) == expected


def test_a_verdict_against_what_was_settled_contests_it():
    settled = [entry("ann", PASS), entry("bob", FAIL), entry("eve", FAIL, 5, "adjudication")]
    assert state_of(*settled, entry("ann", FAIL, 9, "second_look")) == ("adjudicated", FAIL)
    assert state_of(*settled, entry("cat", PASS, 9)) == ("contested", None)


def test_two_who_settle_it_otherwise_contest_each_other():
    first, second = entry("eve", FAIL, 5, "adjudication"), entry("gus", PASS, 6, "adjudication")
    assert state_of(first, second) == ("contested", None)
    assert state_of(first, entry("eve", PASS, 6, "adjudication")) == ("adjudicated", PASS)


def test_what_is_taken_back_settles_nothing():
    settled = entry("eve", FAIL, 5, "adjudication")
    assert state_of(entry("ann", PASS), entry("bob", FAIL), settled, retraction(settled)) == ("needs", None)


def test_gold_is_told_apart_from_opinions():
    found = review_of("add.noop.1", [entry("gus", FAIL, role="gold"), entry("ann", PASS, 1)])
    assert (found.state, found.verdict, found.gold) == ("single", PASS, FAIL)


def test_slugs_have_levels():
    assert category_slug(" Wrong unit / kN ") == "wrong_unit/kn"
    assert category_slug("Größe falsch!") == "größe_falsch"
    assert category_slug("//a//b//") == "a/b"
    assert category_slug("…") == ""
    assert category_slug("wrong-method") == "wrong-method"  # as others may have given it to `annotate`
    assert category_slug("a:_b") == "a_b"


@given(st.text())
@example("wrong_ unit")
def test_a_slug_is_its_own_slug(text):
    slug = category_slug(text)
    assert category_slug(slug) == slug
    assert not set(slug) & set(" \n\t<>\"'&")


def test_what_is_used_most_comes_first_without_what_was_taken_back():
    wrong = said("t", "ada", "fail", categories=["typo"])
    entries = [
        said("t", "ada", "fail", categories=["unit", "sign"]),
        said("u", "bob", "fail", categories=["unit", "unit"]),
        said("u", "bob", "fail", categories=["method"]),
        wrong,
        taken_back(wrong),
    ]
    assert used_categories(entries) == ["unit", "method", "sign"]


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
    for entries, key in (([own, other], other.key), ([own, taken_back(own)], own.key), ([], own.key)):
        with pytest.raises(UsageError, match="ada has no such verdict"):
            undo_entry(GivenUndo(id=ID, reviewer="ada", entry=key), "t", entries)


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


def reviews(*entries):
    found: dict[str, list[ReviewEntry]] = {}
    for each in entries:
        found.setdefault(each.trial_id, []).append(each)
    return found


def test_first_verdicts_are_compared_with_what_is_known():
    known = [said(name, "expert", "pass", role="gold") for name in "abcd"]
    journal = reviews(
        *known,
        said("a", "ada", "pass"),
        said("b", "ada", "fail"),
        said("b", "ada", "pass", role="second_look"),
        said("c", "ada", "defer"),
        said("e", "ada", "fail"),
    )
    assert calibration_of("ada", journal) == Calibration(judged=2, right=1)
    assert calibration_of("bob", journal) == Calibration(judged=0, right=0)


def test_the_page_and_the_figures_count_the_same_when_several_say_what_is_right():
    journal = reviews(
        said("a", "expert", "pass", role="gold"),
        said("a", "ada", "fail", role="gold"),
        said("a", "ada", "pass"),
        said("b", "expert", "fail", role="gold"),
        said("b", "other", "defer", role="gold"),
        said("b", "ada", "pass"),
    )
    job = memory_job([trial(name, "x", 1.0) for name in "ab"])
    job.__dict__["reviews"] = {f"{name}.x.1": entries for name, entries in journal.items()}
    (ada,) = reviewer_figures(cases_of([job]))
    assert calibration_of("ada", journal) == Calibration(ada.calibrated, ada.right) == Calibration(2, 1)


def test_what_one_knows_by_oneself_and_what_was_taken_back_count_for_nothing():
    own, gone = said("a", "ada", "pass", role="gold"), said("b", "expert", "pass", role="gold")
    journal = reviews(own, said("a", "ada", "pass"), gone, taken_back(gone), said("b", "ada", "pass"))
    assert calibration_of("ada", journal) == Calibration(judged=0, right=0)
