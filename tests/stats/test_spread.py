"""Spreads: Student's interval as oracle, and what holds for all of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from seatrial.stats.spread import spread_of

UNIT = (0.0, 1.0)
VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)
LEVELS = st.floats(0.5, 0.999)


def test_it_is_students_interval_with_two_values_more_at_each_end():
    values = [0.9, 1.0, 0.8, 1.0, 0.3]
    low, high = oracle.t.interval(0.95, 8, *_mean_and_error([*values, 0.0, 0.0, 1.0, 1.0]))
    found = spread_of(values, None, UNIT, 0.95)
    shift = 0.8 - 6.0 / 9
    assert found.mean == pytest.approx(0.8)
    assert (found.low, found.high) == pytest.approx((low, min(1.0, high + shift)))


def _mean_and_error(values):
    return sum(values) / len(values), oracle.sem(values)


@pytest.mark.parametrize(("count", "low"), [(1, 0.0), (2, 0.125), (5, 0.439), (10, 0.647), (164, 0.972)])
def test_all_solved_is_not_certainty(count, low):
    found = spread_of([1.0] * count, None, UNIT, 0.95)
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(low, abs=6e-4)


def test_clusters_of_one_are_no_clusters():
    values = [0.1, 0.5, 0.5, 1.0]
    assert spread_of(values, "abcd", UNIT, 0.95) == spread_of(values, None, UNIT, 0.95)


def test_copies_in_a_family_say_nothing_new():
    values = [0.1, 0.5, 0.6, 1.0]
    alone, copied = spread_of(values, None, UNIT, 0.95), spread_of(values * 5, "abcd" * 5, UNIT, 0.95)
    assert (copied.low, copied.high, copied.effective) == pytest.approx((alone.low, alone.high, alone.effective))


def test_one_large_family_counts_as_what_it_is():
    """A hundred tasks in one family and two others are no hundred tasks."""
    found = spread_of([1.0] * 102, ["family"] * 100 + ["a", "b"], UNIT, 0.95)
    assert found.low < 0.1
    assert found.effective < 2


@given(VALUES, LEVELS)
def test_bounds_are_ordered_and_have_a_width(values, level):
    found = spread_of(values, None, UNIT, level)
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.low < found.high
    assert found.error > 0.0
    assert math.isfinite(found.effective)


@given(VALUES, st.randoms(use_true_random=False))
def test_their_order_does_not_matter(values, chance):
    mixed = chance.sample(values, len(values))
    assert spread_of(mixed, None, UNIT, 0.95) == spread_of(values, None, UNIT, 0.95)


@given(VALUES)
def test_failures_mirror_successes(values):
    found, mirrored = spread_of(values, None, UNIT, 0.95), spread_of([1.0 - each for each in values], None, UNIT, 0.95)
    assert (mirrored.low, mirrored.high) == pytest.approx((1.0 - found.high, 1.0 - found.low), abs=1e-9)


@given(VALUES, st.integers(2, 9))
def test_more_of_the_same_is_narrower(values, times):
    few, many = spread_of(values, None, UNIT, 0.95), spread_of(values * times, None, UNIT, 0.95)
    assert many.high - many.low <= few.high - few.low + 1e-12
    assert many.error < few.error
