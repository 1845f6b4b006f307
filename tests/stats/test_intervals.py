"""Wilson intervals: published values, edges, and what holds for all of them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats.intervals import wilson

MEANS = st.floats(0.0, 1.0)
COUNTS = st.integers(1, 10**6)
LEVELS = st.floats(0.01, 0.999)
ANY_LEVEL = st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)


# Newcombe, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17 (1998), table I.
@pytest.mark.parametrize(
    ("hits", "count", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_values(hits, count, low, high):
    assert wilson(hits / count, count) == pytest.approx((low, high), abs=5e-5)


def test_another_level_is_the_other_quantile():
    """With 0 of n, the upper bound is z² / (n + z²)."""
    assert wilson(0.0, 10, 0.90)[1] == pytest.approx(1.6448536**2 / (10 + 1.6448536**2))


@pytest.mark.parametrize("count", [1, 2, 10, 10**9])
def test_all_or_nothing_ends_exactly_at_the_edge(count):
    assert wilson(0.0, count)[0] == 0.0
    assert wilson(1.0, count)[1] == 1.0


def test_one_trial_says_little():
    low, high = wilson(1.0, 1)
    assert high - low > 0.7


@given(MEANS, COUNTS, ANY_LEVEL)
def test_bounds_are_ordered_around_the_mean(mean, count, level):
    low, high = wilson(mean, count, level)
    assert 0.0 <= low <= mean <= high <= 1.0
    assert math.isfinite(low + high)


@given(MEANS, st.integers(1, 10**4), st.integers(1, 100), LEVELS)
def test_more_trials_make_it_narrower(mean, count, factor, level):
    few, many = wilson(mean, count, level), wilson(mean, count * (factor + 1), level)
    assert many[1] - many[0] < few[1] - few[0]


@given(MEANS, COUNTS)
def test_a_higher_level_makes_it_wider(mean, count):
    narrow, wide = wilson(mean, count, 0.5), wilson(mean, count, 0.99)
    assert wide[0] <= narrow[0] + 1e-12
    assert narrow[1] <= wide[1] + 1e-12


@given(MEANS, COUNTS, LEVELS)
def test_failures_mirror_successes(mean, count, level):
    low, high = wilson(1.0 - mean, count, level)
    assert wilson(mean, count, level) == pytest.approx((1.0 - high, 1.0 - low), abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((1.1, 3), "the mean is 1.1"),
        ((-0.1, 3), "the mean is -0.1"),
        ((math.nan, 3), "the mean is nan"),
        ((0.5, 0), "the count is 0"),
        ((0.5, -2), "the count is -2"),
        ((0.5, 3, 0.0), "the level is 0.0"),
        ((0.5, 3, 1.0), "the level is 1.0"),
        ((0.5, 3, math.nan), "the level is nan"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, complaint):
    with pytest.raises(ValueError, match=complaint):
        wilson(*arguments)
