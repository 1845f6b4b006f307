"""Entries of the journal: what one may say, what tells them apart, and what stands of several."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seatrial.model.evaluation import Annotation, Judgment
from seatrial.model.review import (
    Retraction,
    ReviewEntry,
    ReviewRole,
    Sampling,
    first_words,
    last_words,
    new_entry_id,
    not_taken_back,
)

NOON = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)


def entry(
    reviewer: str = "ann",
    judgment: Judgment = Judgment.PASS,
    minute: int = 0,
    role: ReviewRole = "first",
    **changes,
) -> ReviewEntry:
    moment = NOON + dt.timedelta(minutes=minute)
    said = Annotation(reviewer_id=reviewer, timestamp=moment, judgment=judgment)
    return ReviewEntry(id=new_entry_id(), trial_id="add.noop.1", annotation=said, role=role, **changes)


def retraction(of: ReviewEntry, reviewer: str | None = None) -> ReviewEntry:
    said = Retraction(entry=of.key, reviewer_id=reviewer or of.reviewer_id, timestamp=NOON)
    return ReviewEntry(id=new_entry_id(), trial_id=of.trial_id, retraction=said)


def test_an_entry_is_a_verdict_or_a_retraction():
    both = {"annotation": entry().annotation, "retraction": retraction(entry()).retraction}
    for said in ({}, both):
        with pytest.raises(ValidationError, match="exactly one of annotation and retraction"):
            ReviewEntry.model_validate({"trial_id": "add.noop.1", **said})


@pytest.mark.parametrize("probability", [0.0, 1.5, -0.1])
def test_a_sampled_trial_could_be_drawn(probability):
    with pytest.raises(ValidationError):
        Sampling(stratum="random", probability=probability)


def test_a_line_without_an_id_is_known_by_what_it_says():
    line = {"trial_id": "add.noop.1", "annotation": {"reviewer_id": "ann", "timestamp": NOON, "judgment": "pass"}}
    first, copy = (ReviewEntry.model_validate(line) for _ in range(2))
    assert first.key == copy.key
    assert first.key != ReviewEntry.model_validate({**line, "trial_id": "add.noop.2"}).key


def test_what_was_taken_back_does_not_stand():
    first, second = entry(), entry("bob", Judgment.FAIL)
    assert not_taken_back([first, second, retraction(first)]) == [second]


def test_nobody_takes_back_what_somebody_else_said():
    first = entry("ann")
    assert not_taken_back([first, retraction(first, "bob")]) == [first]


def test_a_retraction_that_was_merged_before_its_verdict_counts():
    first = entry()
    assert not_taken_back([retraction(first), first]) == []


def test_the_last_word_is_the_latest_whatever_order_lines_are_in():
    first, later = entry(minute=0), entry(judgment=Judgment.FAIL, minute=5, role="second_look")
    assert last_words([later, first]) == {"ann": later}
    assert first_words([later, first]) == {"ann": first}


def test_who_settles_or_calibrates_does_not_review():
    settled, gold = entry("eve", role="adjudication"), entry("gus", role="gold")
    assert last_words([settled, gold]) == first_words([settled, gold]) == {}


_ENTRIES = st.lists(
    st.builds(entry, st.sampled_from("abc"), st.sampled_from(Judgment), st.integers(0, 9)), max_size=8, unique_by=id
)


@given(_ENTRIES, st.randoms())
def test_what_stands_does_not_depend_on_the_order_of_lines(entries, random):
    lines = [*entries, *(retraction(each) for each in entries[::2])]
    shuffled = random.sample(lines, len(lines))
    kept = [each.key for each in not_taken_back(lines)]
    assert {*kept} == {each.key for each in entries[1::2]}
    assert kept == [each.key for each in not_taken_back(shuffled)]
    assert last_words(lines) == last_words(shuffled)


def test_at_one_moment_a_second_look_comes_after_the_first():
    first, second = entry(), entry(judgment=Judgment.FAIL, role="second_look")
    assert last_words([first, second]) == last_words([second, first]) == {"ann": second}
