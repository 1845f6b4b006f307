"""Which differences between two breakdowns say something about the work, and which only about the run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.scoring.sameness import MAX_DIFFERENCES, differences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
BREAKDOWN = st.dictionaries(st.text(max_size=5), JSON, max_size=4) | st.none()


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"duration_sec": 0.1, "startedAt": "a", "run-id": 1}, {"duration_sec": 0.2, "startedAt": "b", "run-id": 2}),
        ({"a": {"score": 1, "evidence": "passed in 0.12s"}}, {"a": {"score": 1, "evidence": "passed in 3.4 seconds"}}),
        ({"a": "at 2026-01-01T10:00:00Z"}, {"a": "at 2027-05-02 11:30:59.123"}),
        ({"a": "<object at 0x7f01>, /tmp/pytest-1/x"}, {"a": "<object at 0x7f02>, /tmp/pytest-2/y"}),
        ({"a": "missing keys: a, b"}, {"a": "missing keys: b, a"}),
        ({"missing": ["a", "b"]}, {"missing": ["b", "a"]}),
        ({"ctrf": {"tests": [{"name": "t", "duration": 3}]}}, {"ctrf": {"tests": [{"name": "t", "duration": 4}]}}),
        ({"a": 0.1 + 0.2}, {"a": 0.3}),
        ({"a": 1}, {"a": 1.0}),
        (None, {}),
    ],
)
def test_times_places_and_orders_are_no_difference(first, other):
    assert differences(first, other) == differences(other, first) == ()


@pytest.mark.parametrize(
    ("first", "other", "where"),
    [
        ({"a": {"score": 1.0}}, {"a": {"score": 0.0}}, "a.score"),
        ({"travel_time": {"score": 1.0}}, {"travel_time": {"score": 0.5}}, "travel_time.score"),
        ({"a": "found 4.2"}, {"a": "found 4.3"}, "a"),
        ({"a": True}, {"a": 1}, "a"),
        ({"a": None}, {}, "a"),
        ({"missing": ["a"]}, {"missing": ["a", "a"]}, "missing"),
        ({"a": {"b": [{"name": "t", "status": "passed"}]}}, {"a": {"b": [{"name": "t", "status": "failed"}]}}, "a.b"),
        (None, {"a": 1}, "a"),
    ],
)
def test_what_is_said_of_the_work_is_one(first, other, where):
    assert differences(first, other) == differences(other, first) == (where,)


@given(BREAKDOWN, BREAKDOWN)
def test_any_two_can_be_compared_and_none_differs_from_itself(first, other):
    assert differences(first, first) == ()
    assert len(differences(first, other)) <= MAX_DIFFERENCES
    assert bool(differences(first, other)) == bool(differences(other, first))
