"""Where variance comes from: analysis of variance as oracle, and simulated agents whose parts are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from seatrial.stats import variance
from seatrial.stats.variance import split_variance

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
    read, flat = [], variance._flat

    def reading(task):
        read.append(task)
        return flat(task)

    monkeypatch.setattr(variance, "_flat", reading)
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
