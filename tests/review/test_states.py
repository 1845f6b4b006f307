"""What all verdicts on a trial amount to."""

import pytest

from seatrial.model.annotation import Judgment
from seatrial.review.states import ReviewState, review_of
from tests.model.test_review import entry, retraction

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
