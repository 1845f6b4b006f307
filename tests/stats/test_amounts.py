"""Amounts of two agents on the same tasks: scipy's paired t-test as oracle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from seatrial.stats.amounts import AmountDifference, amount_difference

PAIRS = st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6)), min_size=2, max_size=30)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_interval_is_that_of_the_paired_t_test(level):
    first, second = [3.0, 10.0, 2.5, 7.0], [4.5, 9.0, 8.0, 7.5]
    found = amount_difference(first, second, level)
    expected = oracle.ttest_rel(second, first).confidence_interval(level)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.tasks, found.first, found.second, found.difference) == (4, 5.625, 7.25, 1.625)


def test_one_task_has_no_interval_and_none_has_nothing():
    assert amount_difference([2.0], [5.0]) == AmountDifference(1, 2.0, 5.0, 3.0, None, None, 0.95)
    assert amount_difference([], []) is None


@given(PAIRS)
def test_who_is_compared_with_whom_only_turns_the_sign(pairs):
    first, second = zip(*pairs, strict=True)
    one, other = amount_difference(first, second), amount_difference(second, first)
    assert one is not None
    assert other is not None
    assert (one.difference, one.low, one.high) == (-other.difference, -(other.high or 0.0), -(other.low or 0.0))
