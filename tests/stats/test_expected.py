"""What test and interval find together: by simulation four times out of five, and never more than the test alone."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats import power
from seatrial.stats.expected import (
    NEVER,
    Sample,
    detectable,
    expected_interval,
    needed_attempts,
    needed_for_margin,
    needed_tasks,
    sample_of,
)
from seatrial.stats.paired import paired_difference
from seatrial.stats.spread import spread_of

DIFFERENCES = st.floats(0.01, 1.0)
VALUES = st.lists(st.tuples(st.floats(-1, 1), st.floats(-1, 1)), min_size=1, max_size=20)


def tasks_like(sd, tasks):
    return Sample(tasks, tasks, sd**2)


@given(VALUES, st.sampled_from([(-1.0, 1.0), (0.0, 1.0)]))
def test_the_interval_of_values_is_the_one_to_be_expected_of_values_like_them(pairs, limits):
    values = [max(limits[0], value) for pair in pairs for value in pair]
    for clusters in (None, [index // 2 for index in range(len(values))]):
        found = spread_of(values, clusters, limits, 0.9)
        low, high = expected_interval(sample_of(values, clusters), found.mean, limits, 0.9)
        assert (max(limits[0], low), min(limits[1], high)) == pytest.approx((found.low, found.high))


def share_found(chance, tasks, difference, sd, runs=200):
    """How often a comparison of so many tasks believes a difference, of 200 give or take 0.07 (2.5 standard errors)."""
    found = 0
    for _ in range(runs):
        values = [min(1.0, max(-1.0, chance.gauss(difference, sd))) for _ in range(tasks)]
        paired = paired_difference([max(0.0, -value) for value in values], [max(0.0, value) for value in values])
        assert paired is not None
        found += paired.p_value <= 0.05 and paired.low > 0.0
    return found / runs


@pytest.mark.parametrize(("difference", "sd"), [(0.35, 0.3), (0.5, 0.3), (0.4, 0.1)])  # few: all flips are counted
def test_so_many_tasks_find_a_difference_four_times_out_of_five(difference, sd):
    chance, tasks = random.Random(5), needed_tasks(difference, sd)
    assert 0.73 <= share_found(chance, tasks, difference, sd) <= 0.97
    assert share_found(chance, power.needed_tasks(difference, sd), difference, sd) < 0.5  # which are fewer


@pytest.mark.parametrize("tasks", [8, 15])
def test_what_could_have_been_seen_is_seen_four_times_out_of_five(tasks):
    difference = detectable(tasks_like(0.2, tasks))
    assert 0.7 <= share_found(random.Random(6), tasks, difference, 0.2) <= 0.97


@given(DIFFERENCES, st.floats(0.01, 1.0))
def test_so_many_tasks_are_enough_and_one_less_is_not(difference, sd):
    tasks = needed_tasks(difference, sd)
    assert tasks >= power.needed_tasks(difference, sd)
    assert detectable(tasks_like(sd, tasks)) <= difference * (1 + 1e-9)
    if tasks > power.fewest_tasks():
        assert detectable(tasks_like(sd, tasks - 1)) > difference * (1 - 1e-9)


@pytest.mark.parametrize("tasks", [1000, 100_000])
def test_of_many_tasks_the_textbook_says_nearly_the_same(tasks):
    assert detectable(tasks_like(0.5, tasks)) == pytest.approx(power.detectable(0.5, tasks), rel=0.01)


def test_two_tasks_find_nothing():
    assert detectable(tasks_like(0.1, 2)) == NEVER


def test_attempts_cannot_make_up_for_tasks_that_differ():
    found = needed_attempts(0.05, tasks=100, between=0.09, within=0.2)
    assert found.attempts is None
    assert found.floor == pytest.approx(detectable(tasks_like(0.3, 100)))
    assert found.floor > 0.05


@given(DIFFERENCES, st.integers(2, 500), st.floats(0.0, 0.3), st.floats(0.01, 0.5))
def test_so_many_attempts_are_enough_and_one_less_is_not(difference, tasks, between, within):
    found = needed_attempts(difference, tasks, between, within)
    assert found.attempts is not None or found.floor >= difference * (1 - 1e-9)
    if found.attempts:
        assert detectable(tasks_like(math.sqrt(between + within / found.attempts), tasks)) <= difference * (1 + 1e-9)
    if found.attempts and found.attempts > 1:
        fewer = math.sqrt(between + within / (found.attempts - 1))
        assert detectable(tasks_like(fewer, tasks)) > difference * (1 - 1e-9)


@pytest.mark.parametrize(("difference", "margin"), [(0.03, 0.02), (0.0, 0.05), (-0.07, 0.02), (-0.3, 0.1)])
def test_so_many_times_as_many_decide_about_a_margin_and_hardly_fewer_do_not(difference, margin):
    sample = tasks_like(0.4, 10)
    ratio = needed_for_margin(sample, difference, margin)
    assert ratio is not None
    for times, decided in ((1.001, True), (0.999, False)):
        more = sample.times(ratio * times)
        low, high = expected_interval(more, difference)
        room = 0.8416 * math.sqrt(more.variance / more.alike)
        varies = room * more.alike / (more.alike + 3)
        above = low + margin >= (varies if difference > 0 else room)
        below = high + margin <= -(varies if difference < 0 else room)
        assert (above or below) is decided


def test_at_the_margin_no_number_decides():
    assert needed_for_margin(tasks_like(0.4, 10), -0.02, 0.02) is None
    assert needed_for_margin(tasks_like(0.4, 10), -0.09999999999999999, 0.1) is None


def test_where_no_task_differs_only_the_added_ones_are_wide():
    ratio = needed_for_margin(tasks_like(0.0, 30), 0.0, 0.02)
    assert ratio is not None
    needed = math.ceil(30 * ratio)
    for tasks, is_enough in ((needed + 1, True), (needed - 1, False)):
        assert (spread_of([0.0] * tasks, None, (-1.0, 1.0), 0.95).low >= -0.02) is is_enough
