"""Means over tasks: how often their interval holds the truth, counted exactly, and what goes into them."""

import math
from itertools import combinations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from seatrial.stats.estimates import (
    Estimate,
    estimate_mean,
    estimate_pass_all_k,
    estimate_pass_at_k,
    pass_all_k,
    pass_at_k,
    spread_of,
    stability,
    student_t,
    wilson,
)

RATES = [number / 200 for number in range(1, 200)]
GROUPS = st.lists(st.lists(st.floats(0.0, 1.0), max_size=4), max_size=8)


def certain(groups, clusters=None) -> Estimate:
    found = estimate_mean(groups, clusters)
    assert found
    return found


def solved(count, tasks):
    return [[1.0]] * count + [[0.0]] * (tasks - count)


@pytest.mark.parametrize("tasks", [2, 3, 5, 8, 10, 15, 20, 30, 50, 100])
def test_the_interval_of_a_rate_holds_the_truth_94_times_of_100_wherever_it_lies(tasks):
    bounds = [certain(solved(count, tasks)) for count in range(tasks + 1)]
    for rate in RATES:
        chances = (comb(tasks, count) * rate**count * (1 - rate) ** (tasks - count) for count in range(tasks + 1))
        held = sum(chance for chance, found in zip(chances, bounds, strict=True) if found.low <= rate <= found.high)
        assert held >= 0.942, rate


def test_trials_of_a_task_are_averaged_first():
    found = certain([[1.0, 1.0, 0.0, 1.0], [0.0]])
    assert found.value == 0.375
    assert (found.values, found.groups) == (5, 2)


def test_repeating_every_trial_makes_nothing_more_certain():
    once, often = certain(solved(3, 8)), certain([each * 10 for each in solved(3, 8)])
    assert (once.low, once.high, once.effective) == (often.low, often.high, often.effective)
    assert once.effective == pytest.approx(8)


def test_tasks_that_hardly_differ_say_more_than_those_that_do():
    alike, unlike = certain([[0.5], [0.6]] * 50), certain([[0.1], [1.0]] * 50)
    assert alike.value == unlike.value == pytest.approx(0.55)
    assert alike.high - alike.low < 0.5 * (unlike.high - unlike.low)
    assert alike.effective == 100, "never more than there are values"


def test_empty_groups_do_not_count_and_keep_their_clusters_apart():
    assert estimate_mean([]) is None
    assert estimate_mean([[], []]) is None
    assert estimate_mean([[], [1.0], [], [0.5]], ["x", "a", "x", "b"]) == estimate_mean([[1.0], [0.5]], ["a", "b"])


@given(GROUPS)
def test_an_estimate_holds_its_mean(groups):
    found = estimate_mean(groups)
    if found is None:
        assert not any(groups)
        return
    assert 0.0 <= found.low <= found.value <= found.high <= 1.0
    assert found.low < found.high
    assert 1.0 <= found.effective <= found.values


@given(GROUPS, st.integers(0, 7))
def test_families_change_the_interval_but_not_the_mean(groups, families):
    found, alone = (
        estimate_mean(groups, [index % (families + 1) for index in range(len(groups))]),
        estimate_mean(groups),
    )
    assert (found and found.value) == pytest.approx(alone and alone.value)


VALUES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30)
LEVELS = st.floats(0.5, 0.999)


def test_it_is_students_interval_with_two_values_more_at_each_end():
    values = [0.9, 1.0, 0.8, 1.0, 0.3]
    low, high = oracle.t.interval(0.95, 8, *_mean_and_error([*values, 0.0, 0.0, 1.0, 1.0]))
    found = spread_of(values, None, 0.95)
    shift = 0.8 - 6.0 / 9
    assert found.mean == pytest.approx(0.8)
    assert (found.low, found.high) == pytest.approx((low, min(1.0, high + shift)))


def _mean_and_error(values):
    return sum(values) / len(values), oracle.sem(values)


@pytest.mark.parametrize(("count", "low"), [(1, 0.0), (2, 0.125), (5, 0.439), (10, 0.647), (164, 0.972)])
def test_all_solved_is_not_certainty(count, low):
    found = spread_of([1.0] * count, None, 0.95)
    assert (found.mean, found.high) == (1.0, 1.0)
    assert found.low == pytest.approx(low, abs=6e-4)


def test_clusters_of_one_are_no_clusters():
    values = [0.1, 0.5, 0.5, 1.0]
    assert spread_of(values, "abcd", 0.95) == spread_of(values, None, 0.95)


def test_copies_in_a_family_say_nothing_new():
    values = [0.1, 0.5, 0.6, 1.0]
    alone, copied = spread_of(values, None, 0.95), spread_of(values * 5, "abcd" * 5, 0.95)
    assert (copied.low, copied.high, copied.effective) == pytest.approx((alone.low, alone.high, alone.effective))


def test_one_large_family_counts_as_what_it_is():
    """A hundred tasks in one family and two others are no hundred tasks."""
    found = spread_of([1.0] * 102, ["family"] * 100 + ["a", "b"], 0.95)
    assert found.low < 0.1
    assert found.effective < 2


@given(VALUES, LEVELS)
def test_bounds_are_ordered_and_have_a_width(values, level):
    found = spread_of(values, None, level)
    assert 0.0 <= found.low <= found.mean <= found.high <= 1.0
    assert found.low < found.high
    assert found.error > 0.0
    assert math.isfinite(found.effective)


@given(VALUES, st.randoms(use_true_random=False))
def test_their_order_does_not_matter(values, chance):
    mixed = chance.sample(values, len(values))
    assert spread_of(mixed, None, 0.95) == spread_of(values, None, 0.95)


@given(VALUES)
def test_failures_mirror_successes(values):
    found, mirrored = spread_of(values, None, 0.95), spread_of([1.0 - each for each in values], None, 0.95)
    assert (mirrored.low, mirrored.high) == pytest.approx((1.0 - found.high, 1.0 - found.low), abs=1e-9)


@given(VALUES, st.integers(2, 9))
def test_more_of_the_same_is_narrower(values, times):
    few, many = spread_of(values, None, 0.95), spread_of(values * times, None, 0.95)
    assert many.high - many.low <= few.high - few.low + 1e-12
    assert many.error < few.error


MEANS = st.floats(0.0, 1.0)
COUNTS = st.integers(1, 10**6)
INTERVALS_LEVELS = st.floats(0.01, 0.999)
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


@given(MEANS, st.integers(1, 10**4), st.integers(1, 100), INTERVALS_LEVELS)
def test_more_trials_make_it_narrower(mean, count, factor, level):
    few, many = wilson(mean, count, level), wilson(mean, count * (factor + 1), level)
    assert many[1] - many[0] < few[1] - few[0]


@given(MEANS, COUNTS)
def test_a_higher_level_makes_it_wider(mean, count):
    narrow, wide = wilson(mean, count, 0.5), wilson(mean, count, 0.99)
    assert wide[0] <= narrow[0] + 1e-12
    assert narrow[1] <= wide[1] + 1e-12


@given(MEANS, COUNTS, INTERVALS_LEVELS)
def test_failures_mirror_successes_in_intervals(mean, count, level):
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


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 30, 163, 400, 401, 100_000])
def test_scipys_quantiles(level, freedom):
    assert student_t(level, freedom) == pytest.approx(oracle.t.ppf((1 + level) / 2, freedom), rel=1e-9)


def test_without_freedom_there_is_none():
    with pytest.raises(ValueError, match="0 degrees of freedom"):
        student_t(0.95, 0)


ATTEMPTS = st.integers(0, 7).flatmap(lambda judged: st.tuples(st.just(judged), st.integers(0, judged)))


@given(ATTEMPTS, st.integers(1, 7))
def test_all_draws_are_counted(attempts, k):
    judged, passed = attempts
    draws = [sum(drawn) for drawn in combinations([1] * passed + [0] * (judged - passed), k)]
    if not draws:
        assert pass_at_k(judged, passed, k) is None
        assert pass_all_k(judged, passed, k) is None
        return
    assert pass_at_k(judged, passed, k) == pytest.approx(sum(each > 0 for each in draws) / len(draws))
    assert pass_all_k(judged, passed, k) == pytest.approx(sum(each == k for each in draws) / len(draws))


@given(ATTEMPTS, st.integers(1, 6))
def test_more_attempts_help_one_to_pass_and_hinder_all_from_it(attempts, k):
    judged, passed = attempts
    one, all_of_them = pass_at_k(judged, passed, k), pass_all_k(judged, passed, k)
    one_of_more, all_of_more = pass_at_k(judged, passed, k + 1), pass_all_k(judged, passed, k + 1)
    if one_of_more is not None and all_of_more is not None:
        assert one is not None
        assert all_of_them is not None
        assert one <= one_of_more + 1e-12
        assert all_of_more <= all_of_them + 1e-12


def test_estimates_are_over_tasks_with_enough_attempts():
    found = estimate_pass_at_k([(3, 1), (3, 3), (1, 0)], 2)
    assert found
    assert found.value == pytest.approx((2 / 3 + 1.0) / 2)
    assert found.groups == 2
    assert estimate_pass_at_k([(1, 1)], 2) is None
    every = estimate_pass_all_k([(2, 2)] * 10, 2)
    assert every
    assert every.value == 1.0 > every.low > 0.6


def test_families_say_less():
    tasks = [(2, 2)] * 10
    alone, together = estimate_pass_at_k(tasks, 2), estimate_pass_at_k(tasks, 2, clusters=["a"] * 5 + ["b"] * 5)
    assert alone
    assert together
    assert together.low < alone.low


def test_always_never_and_flaky():
    found = stability([(3, 3), (2, 0), (4, 1), (0, 0), (1, 1)])
    assert (found.tasks, found.always, found.never, found.flaky) == (4, 2, 1, 1)
