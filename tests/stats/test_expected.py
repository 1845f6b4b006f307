"""What test and interval find together: by simulation four times out of five, and never more than the test alone."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle
from statsmodels.stats.power import TTestPower

from seatrial.stats import expected
from seatrial.stats.estimates import spread_of
from seatrial.stats.expected import (
    NEVER,
    Sample,
    detectable,
    expected_interval,
    needed_attempts,
    needed_for_margin,
    needed_tasks,
    sample_of,
    split_variance,
)
from seatrial.stats.paired import paired_difference
from seatrial.stats.sign_flips import fewest_tasks

DIFFERENCES = st.floats(0.01, 1.0)
VALUES = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=20)


def tasks_like(sd, tasks):
    return Sample(tasks, tasks, sd**2)


@given(VALUES)
def test_the_interval_of_values_is_the_one_to_be_expected_of_values_like_them(pairs):
    values = [value for pair in pairs for value in pair]
    for clusters in (None, [index // 2 for index in range(len(values))]):
        found = spread_of(values, clusters, 0.9)
        low, high = expected_interval(sample_of(values, clusters), found.mean, 0.9)
        assert (max(0.0, low), min(1.0, high)) == pytest.approx((found.low, found.high))


def share_found(chance, tasks, difference, sd, runs=200):
    """How often a comparison of so many tasks finds a difference, of 200 give or take 0.07 (2.5 standard errors)."""
    found = 0
    for _ in range(runs):
        values = [min(1.0, max(-1.0, chance.gauss(difference, sd))) for _ in range(tasks)]
        paired = paired_difference([max(0.0, -value) for value in values], [max(0.0, value) for value in values])
        assert paired is not None
        found += paired.p_value <= 0.05
    return found / runs


@pytest.mark.parametrize(("difference", "sd"), [(0.35, 0.3), (0.25, 0.3), (0.2, 0.3)])  # few: all flips are counted
def test_so_many_tasks_find_a_difference_four_times_out_of_five(difference, sd):
    chance, tasks = random.Random(5), needed_tasks(difference, sd)
    assert 0.7 <= share_found(chance, tasks, difference, sd) <= 0.97


@pytest.mark.parametrize("tasks", [6, 7, 8, 15])
def test_what_could_have_been_seen_is_seen_four_times_out_of_five(tasks):
    difference = detectable(tasks_like(0.2, tasks))
    assert 0.7 <= share_found(random.Random(6), tasks, difference, 0.2) <= 0.97


@given(DIFFERENCES, st.floats(0.01, 1.0))
def test_so_many_tasks_are_enough_and_one_less_is_not(difference, sd):
    tasks = needed_tasks(difference, sd)
    assert detectable(tasks_like(sd, tasks)) <= difference * (1 + 1e-9)
    if tasks > fewest_tasks(0.05):
        assert detectable(tasks_like(sd, tasks - 1)) > difference * (1 - 1e-9)


@pytest.mark.parametrize(("tasks", "points"), [(164, 10.9), (500, 6.3), (100_000, 0.443)])
def test_of_many_tasks_the_textbook_says_nearly_the_same(tasks, points):
    """2.80 standard errors."""
    assert 100 * detectable(tasks_like(0.5, tasks)) == pytest.approx(points, rel=0.01)


@pytest.mark.parametrize(("difference", "sd"), [(0.05, 0.5), (0.1, 0.3), (0.02, 0.4)])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.9)])
def test_statsmodels_needs_as_many(difference, sd, alpha, power):
    found = TTestPower().solve_power(difference / sd, alpha=alpha, power=power)
    assert needed_tasks(difference, sd, alpha, power) == pytest.approx(found, abs=1.1)
    assert needed_tasks(-difference, sd, alpha, power) == needed_tasks(difference, sd, alpha, power)


def test_no_number_of_tasks_shows_no_difference():
    with pytest.raises(ValueError, match="no number of tasks"):
        needed_tasks(0.0, 0.3)


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


@pytest.mark.parametrize("distance", [0.05, 0.2, 0.8])
def test_so_many_times_as_many_decide_about_a_margin_and_hardly_fewer_do_not(distance):
    sample = tasks_like(0.4, 10)
    ratio = needed_for_margin(sample, distance)
    assert ratio is not None
    assert detectable(sample.times(ratio * 1.001)) <= distance < detectable(sample.times(ratio * 0.97))


def test_at_the_margin_no_number_decides():
    assert needed_for_margin(tasks_like(0.4, 10), 0.0) is None
    assert needed_for_margin(tasks_like(0.4, 10), 1e-17) is None


TASKS = st.lists(st.lists(st.lists(st.floats(0.0, 1.0), max_size=3), max_size=3), max_size=5)


def test_a_balanced_design_is_the_textbooks_analysis_of_variance():
    """The F statistic of scipy is the mean square between by that within."""
    tasks = [[0.1, 0.4, 0.3], [0.9, 0.7, 1.0], [0.5, 0.2, 0.6], [0.8, 0.8, 0.5]]
    found = split_variance([[[reward] for reward in task] for task in tasks])
    assert found.within == pytest.approx(np.mean([np.var(task, ddof=1) for task in tasks]))
    between_square = oracle.f_oneway(*tasks).statistic * found.within
    assert found.between == pytest.approx((between_square - found.within) / 3)
    assert (found.verifier, found.truncated, found.tasks, found.trials, found.verdicts) == (None, (), 4, 12, 12)


@pytest.mark.parametrize("uneven", [False, True])
def test_on_average_the_parts_are_those_that_were_put_in(uneven):
    chance = np.random.default_rng(5)
    found = []
    for _ in range(150):
        tasks = []
        for number in range(12):
            task = chance.normal(0, 0.3)
            trials = [task + chance.normal(0, 0.2) for _ in range(1 + number % 4 if uneven else 3)]
            sizes = [1 + (number + index) % 3 if uneven else 2 for index in range(len(trials))]
            tasks.append([list(chance.normal(each, 0.1, size)) for each, size in zip(trials, sizes, strict=True)])
        split = split_variance(tasks)
        found.append([split.between or 0.0, split.within or 0.0, split.verifier or 0.0])
    assert np.mean(found, axis=0) == pytest.approx([0.09, 0.04, 0.01], rel=0.1)


def test_noise_that_explains_everything_is_said():
    found = split_variance([[[0.0], [1.0]], [[1.0], [0.0]]])
    assert (found.between, found.within, found.truncated) == (0.0, 0.5, ("between",))


def test_a_verifier_of_many_minds():
    """One output, judged as 0 and as 1: what trials seem to differ by is the verifier's doing."""
    found = split_variance([[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    assert (found.between, found.within, found.verifier) == (0.0, 0.0, 0.5)
    assert found.truncated == ("within",)


def test_what_was_not_repeated_is_not_known():
    once = split_variance([[[0.0]], [[1.0]], [[0.5]]])
    assert once.between == pytest.approx(0.25)
    assert (once.within, once.verifier) == (None, None)
    alone = split_variance([[[0.0], [1.0]]])
    assert (alone.between, alone.within, alone.verifier) == (None, 0.5, None)
    assert split_variance([]).between is None


def test_more_attempts_at_a_task_do_not_mean_that_it_is_read_more_often(monkeypatch):
    read, flat = [], expected._flat

    def reading(task):
        read.append(task)
        return flat(task)

    monkeypatch.setattr(expected, "_flat", reading)
    split_variance([[[0.0], [1.0]] * 2] * 3)
    few = len(read)
    split_variance([[[0.0], [1.0]] * 50] * 3)
    assert len(read) == 2 * few


@given(TASKS)
def test_no_part_is_negative_and_empty_ones_do_not_count(tasks):
    found = split_variance(tasks)
    assert all(part is None or part >= 0.0 for part in (found.between, found.within, found.verifier))
    assert found.verdicts == sum(len(trial) for task in tasks for trial in task)
    assert split_variance([*tasks, [], [[]]]) == found
