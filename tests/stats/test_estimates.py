"""Means over tasks: how often their interval holds the truth, counted exactly, and what goes into them."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.stats.estimates import Estimate, estimate_mean

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
