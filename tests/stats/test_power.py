"""How many tasks a test takes, beside statsmodels and the table of our own decisions."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import NormalIndPower, TTestPower

from seatrial.stats.power import detectable, fewest_tasks, found_at, needed_tasks
from seatrial.stats.sign_flips import sign_flip

DIFFERENCES = st.floats(0.01, 1.0)
SDS = st.floats(0.01, 1.0)


def test_the_usual_factor():
    assert found_at() == pytest.approx(2.80, abs=0.002)


@pytest.mark.parametrize(("tasks", "points"), [(50, 19.8), (164, 10.9), (500, 6.3)])
def test_known_values(tasks, points):
    assert 100 * detectable(0.5, tasks) == pytest.approx(points, abs=0.06)


@pytest.mark.parametrize(("difference", "sd"), [(0.05, 0.5), (0.1, 0.3), (0.02, 0.4)])
@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.9)])
def test_statsmodels_needs_as_many(difference, sd, alpha, power):
    expected = NormalIndPower(ddof=0).solve_power(difference / sd, alpha=alpha, power=power, ratio=0)
    found = needed_tasks(difference, sd, alpha, power)
    assert found == math.ceil(expected)
    assert found == pytest.approx(TTestPower().solve_power(difference / sd, alpha=alpha, power=power), abs=4)


def test_the_direction_does_not_matter_and_no_difference_is_never_seen():
    assert needed_tasks(-0.1, 0.3) == needed_tasks(0.1, 0.3)
    with pytest.raises(ValueError, match="no number of tasks"):
        needed_tasks(0.0, 0.3)


@given(DIFFERENCES, SDS)
def test_so_many_tasks_are_enough_and_one_less_is_not(difference, sd):
    tasks = needed_tasks(difference, sd)
    assert detectable(sd, tasks) <= difference * (1 + 1e-9)
    if tasks > fewest_tasks():
        assert detectable(sd, tasks - 1) > difference * (1 - 1e-9)


@pytest.mark.parametrize(
    ("alpha", "tasks"), [(0.05, 6), (1.0 - 0.95, 6), (0.01, 8), (0.5, 2), (0.25, 3), (1.0 - 0.9375, 5)]
)
def test_so_few_tasks_never_show_anything(alpha, tasks):
    assert fewest_tasks(alpha) == tasks == needed_tasks(1.0, 0.01, alpha)
    assert sign_flip([1.0] * tasks)[0] <= alpha < sign_flip([1.0] * (tasks - 1))[0]
