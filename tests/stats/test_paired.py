"""Paired comparisons: enumeration, scipy and statsmodels as oracles, and what holds for all of them."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar

from seatrial.stats.paired import EXACT_UP_TO, Paired, mcnemar, paired_difference, sign_flip

MEANS = st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=12)


def compared(first, second, clusters=None) -> Paired:
    found = paired_difference(first, second, clusters=clusters)
    assert found
    return found


def draws(seed, count):
    chance = random.Random(seed)
    return [chance.choice((-1.0, -0.5, 0.0, 0.25, 0.5, 1.0)) + chance.uniform(-0.1, 0.2) for _ in range(count)]


@pytest.mark.parametrize("seed", range(4))
def test_all_ways_to_flip_are_counted(seed):
    differences = draws(seed, 9)
    flips = [sum(map(float.__mul__, ways, differences)) for ways in itertools.product((1.0, -1.0), repeat=9)]
    seen = abs(math.fsum(differences))
    expected = sum(abs(each) >= seen - 1e-9 for each in flips) / len(flips)
    p_value, test = sign_flip(differences)
    assert p_value == pytest.approx(expected)
    assert test == "exact"


@pytest.mark.parametrize("count", [12, 30])
def test_scipys_permutation_test_finds_the_same(count):
    differences = draws(7, count)
    found = oracle.permutation_test(
        (np.array(differences),), np.sum, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(1)
    )
    assert sign_flip(differences)[0] == pytest.approx(found.pvalue, abs=0.01)


def test_beyond_so_many_signs_are_drawn_and_the_seed_decides():
    """All of one size: the number of positive signs is binomial."""
    differences = [1.0] * 22 + [-1.0] * 9
    p_value, test = sign_flip(differences)
    assert test == "monte_carlo"
    assert p_value == pytest.approx(oracle.binomtest(22, 31).pvalue, abs=0.001)
    assert sign_flip(differences) == (p_value, test)
    assert sign_flip(differences, seed=1) != (p_value, test)


def test_zeros_do_not_count_towards_that():
    assert sign_flip([1.0] * EXACT_UP_TO + [0.0] * 100) == (2 / 2**EXACT_UP_TO, "exact")
    assert sign_flip([0.0] * 100) == (1.0, "exact")


def test_sums_that_differ_by_rounding_are_the_same():
    """Ten times 0.1, added one by one, are a little less than 1, and still as far from 0 as what was seen."""
    assert sign_flip([0.1] * 10) == (2 / 2**10, "exact")
    assert sign_flip([0.1, 0.2, -0.3]) == (1.0, "exact")


def test_a_family_flips_as_one():
    assert sign_flip([0.5, 0.5, 0.5, 0.5], clusters="aabb") == sign_flip([1.0, 1.0])
    assert sign_flip([0.5, -0.5, 1.0], clusters="aab") == sign_flip([1.0])


@pytest.mark.parametrize("tasks", [8, 15, 40])
def test_without_a_difference_p_values_below_a_level_are_no_more_frequent_than_the_level(tasks):
    chance = random.Random(tasks)
    found = []
    for _ in range(400):
        differences = [chance.choice((-1, 1)) * chance.choice((0.0, 0.0, 1 / 3, 1.0, 0.7)) for _ in range(tasks)]
        found.append(sign_flip(differences, resamples=999)[0])
    for level in (0.05, 0.2, 0.5):
        share = sum(each <= level for each in found) / len(found)
        assert share <= level + 3 * math.sqrt(level * (1 - level) / len(found))
    assert sum(each <= 0.5 for each in found) > 0.3 * len(found), "the test sees something at all"


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (0, 1), (6, 0), (12, 3), (9, 9), (40, 61)])
def test_statsmodels_mcnemar_finds_the_same(won, lost):
    expected = statsmodels_mcnemar([[5, won], [lost, 5]], exact=True).pvalue if won + lost else 1.0
    assert mcnemar(won, lost) == pytest.approx(expected)


def test_wins_losses_and_the_mean():
    found = compared([0.0, 0.5, 1.0, 1.0], [1.0, 1.0, 1.0, 0.75])
    assert (found.tasks, found.wins, found.losses) == (4, 2, 1)
    assert found.difference == pytest.approx(0.3125)
    assert found.sd == pytest.approx(np.std([1.0, 0.5, 0.0, -0.25], ddof=1))


def test_none_without_tasks():
    assert paired_difference([], []) is None


def test_agents_that_never_differ_might_still_differ_elsewhere():
    found = compared([1.0] * 20, [1.0] * 20)
    assert (found.difference, found.sd, found.p_value) == (0.0, 0.0, 1.0)
    assert found.low == pytest.approx(-found.high) == pytest.approx(-0.160, abs=1e-3)
    assert found.detectable > found.high


def test_what_could_be_seen_approaches_the_textbooks_formula():
    chance = random.Random(3)
    found = compared([0.5] * 2000, [chance.choice((0.0, 0.5, 1.0)) for _ in range(2000)])
    assert found.detectable == pytest.approx(2.80 * found.sd / math.sqrt(2000), rel=0.01)


def test_families_make_less_certain():
    second = [1.0] * 10 + [0.0] * 5 + [1.0] * 10
    alone, together = compared([0.4] * 25, second), compared([0.4] * 25, second, [each // 5 for each in range(25)])
    assert together.difference == alone.difference
    assert together.low < alone.low
    assert together.detectable > alone.detectable
    assert together.p_value > alone.p_value


@given(MEANS)
def test_swapping_the_agents_flips_the_signs_and_nothing_else(pairs):
    first, second = zip(*pairs, strict=True)
    there, back = compared(first, second), compared(second, first)
    assert (back.difference, back.low, back.high) == pytest.approx((-there.difference, -there.high, -there.low))
    assert (back.wins, back.losses) == (there.losses, there.wins)
    assert back.p_value == there.p_value
    assert back.detectable == pytest.approx(there.detectable)


@given(MEANS, st.randoms(use_true_random=False))
def test_the_order_of_tasks_does_not_matter(pairs, chance):
    mixed = chance.sample(pairs, len(pairs))
    assert compared(*zip(*mixed, strict=True)) == compared(*zip(*pairs, strict=True))


@given(MEANS)
def test_bounds(pairs):
    found = compared(*zip(*pairs, strict=True))
    assert -1.0 <= found.low <= found.difference <= found.high <= 1.0
    assert found.low < found.high
    assert 0.0 < found.p_value <= 1.0
    assert 0.0 < found.detectable <= 2.0


def test_what_rounding_does_to_means_is_no_difference():
    """0.1, 0.2 and 0.3 have the mean of 0.2, 0.2 and 0.2, and floats say otherwise."""
    first, second = [math.fsum((0.1, 0.2, 0.3)) / 3] * 25, [math.fsum((0.2, 0.2, 0.2)) / 3] * 25
    assert first != second
    found = compared(first, second)
    assert (found.wins, found.losses, found.p_value, found.difference) == (0, 0, 1.0, 0.0)
    thirds = [1 / 3, 2 / 3 - 1] * 25
    assert sign_flip(thirds, clusters=[number // 2 for number in range(50)]) == (1.0, "exact")
