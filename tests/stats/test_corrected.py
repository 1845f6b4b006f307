"""Means with bounds for what is not sure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats.corrected import FAILED, Possible, corrected_mean, known
from seatrial.stats.estimates import estimate_mean

POSSIBLE = st.tuples(st.floats(0.0, 1.0), st.none() | st.floats(0.0, 1.0)).map(lambda pair: known(*pair))


def test_disputed_and_failed_trials_open_the_mean():
    found = corrected_mean([[known(1.0), known(0.0, believed=1.0)], [known(0.5), FAILED]])
    assert found
    assert (found.lowest.value, found.highest.value) == pytest.approx((0.375, 0.875))
    assert (found.trials, found.unsure) == (4, 2)


def test_a_dispute_may_go_either_way():
    assert known(0.8, believed=0.3) == Possible(0.3, 0.8)


def test_what_is_sure_has_one_mean():
    found = corrected_mean([[known(1.0)], [known(0.5)], []])
    assert found
    assert found.lowest == found.highest == estimate_mean([[1.0], [0.5]])
    assert found.unsure == 0


def test_none_without_trials():
    assert corrected_mean([]) is None
    assert corrected_mean([[], []]) is None


@given(st.lists(st.lists(POSSIBLE | st.just(FAILED), max_size=4), min_size=1, max_size=6))
def test_the_lowest_is_never_above_the_highest(tasks):
    found = corrected_mean(tasks)
    if found:
        assert found.lowest.value <= found.highest.value
        assert found.lowest.low <= found.highest.high
