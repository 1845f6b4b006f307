"""The sign-flip test beside enumeration and scipy, and its interval beside the test of every shift."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle

from seatrial.stats.sign_flips import (
    EXACT_UP_TO,
    difference_interval,
    differing_of,
    draws_of,
    fewest_tasks,
    is_told_apart,
    least_p_value,
    share_at_most,
    sign_flip,
)

LEVELS = st.sampled_from([0.05, 1.0 - 0.95, 1.0 - 0.9, 0.25, 0.01, 0.5, 1.0 - 0.96875])
VALUES = st.one_of(
    st.sampled_from([-1.0, 0.0, 1.0]), st.sampled_from([-1 / 3, 0.0, 0.0, 1 / 3, 2 / 3, 1.0]), st.floats(-1.0, 1.0)
)
LOST = [-0.21, -0.28, -0.38, -0.40, -0.45, -0.50, -0.55, -0.63]


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


@pytest.mark.parametrize("tasks", [8, 15, 24])
def test_without_a_difference_p_values_below_a_level_are_no_more_frequent_than_the_level(tasks):
    chance = random.Random(tasks)
    found = []
    for _ in range(400):
        differences = [chance.choice((-1, 1)) * chance.choice((0.0, 0.0, 1 / 3, 1.0, 0.7)) for _ in range(tasks)]
        found.append(sign_flip(differences)[0])
    for level in (0.05, 0.2, 0.5):
        share = sum(each <= level for each in found) / len(found)
        assert share <= level + 3 * math.sqrt(level * (1 - level) / len(found))
    assert sum(each <= 0.5 for each in found) > 0.3 * len(found), "the test sees something at all"


def test_rounding_is_no_difference():
    thirds = [1 / 3, 2 / 3 - 1] * 25
    assert sign_flip(thirds, clusters=[number // 2 for number in range(50)]) == (1.0, "exact")


def excludes_zero(interval):
    low, high = interval
    return not low <= 0.0 <= high


@given(st.lists(VALUES, min_size=1, max_size=14), LEVELS, st.booleans())
def test_the_interval_excludes_0_exactly_where_the_p_value_is_small_enough(differences, alpha, paired):
    clusters = [number // 2 for number in range(len(differences))] if paired else None
    p_value, _ = sign_flip(differences, clusters=clusters)
    low, high = difference_interval(differences, alpha, clusters=clusters)
    assert excludes_zero((low, high)) is is_told_apart(p_value, alpha)
    mean = math.fsum(differences) / len(differences)
    assert -1.0 <= low <= mean + 1e-12
    assert mean - 1e-12 <= high <= 1.0


@pytest.mark.parametrize("ties", [0, 9, 300])
@pytest.mark.parametrize("count", [6, 12, 21, 300])
@pytest.mark.parametrize("values", [(-1.0, 1.0), (-1 / 3, 0.5, 2 / 3), None])
def test_so_it_is_where_signs_or_ties_are_drawn(values, count, ties):
    chance = random.Random(count + ties)
    for seed in range(4):
        lean = chance.uniform(0.0, 3.0) / math.sqrt(count)
        seen = [
            chance.choice(values) if values and chance.random() > lean else chance.uniform(0.1 * lean, 0.9)
            for _ in range(count)
        ]
        p_value, test = sign_flip([*seen, *[0.0] * ties], seed)
        assert test == ("monte_carlo" if count > EXACT_UP_TO else "exact")
        for alpha in (0.05, 0.2, p_value, p_value * (1 - 1e-9)):
            if alpha <= 0.5:
                found = difference_interval([*seen, *[0.0] * ties], alpha, seed)
                assert excludes_zero(found) is is_told_apart(p_value, alpha)


def p_of_shift(differences, shift):
    flips = itertools.product((1.0, -1.0), repeat=len(differences))
    moved = [each - shift for each in differences]
    seen = abs(math.fsum(moved)) - 1e-9
    return sum(abs(math.fsum(map(float.__mul__, ways, moved))) >= seen for ways in flips) / 2 ** len(differences)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.25])
@pytest.mark.parametrize("seed", range(4))
def test_each_shift_inside_is_not_rejected_and_each_outside_is(seed, alpha):
    differences = [max(-1.0, min(1.0, each)) for each in draws(seed, 9)]
    low, high = difference_interval(differences, alpha)
    for end, outwards in ((low, -1e-6), (high, 1e-6)):
        assert p_of_shift(differences, end - outwards) > alpha
        assert p_of_shift(differences, end + outwards) <= alpha


def test_shifts_of_families_weigh_as_many_tasks():
    families = [0, 0, 0, 1, 2, 2, 3, 4, 5, 6]
    differences = [0.5, 0.3, 0.1, 0.6, 0.2, 0.4, 0.2, 0.5, 0.7, 0.1]
    low, high = difference_interval(differences, 0.05, clusters=families)
    for shift, is_rejected in ((low - 1e-6, True), (low + 1e-6, False), (high - 1e-6, False), (high + 1e-6, True)):
        moved = [each - shift for each in differences]
        assert (sign_flip(moved, clusters=families)[0] <= 0.05) is is_rejected


def test_of_many_tasks_it_is_students_interval():
    chance = np.random.default_rng(4)
    for differences in (chance.uniform(-0.5, 0.8, 200), chance.choice([-1.0, 0.0, 0.0, 1.0], 200)):
        error = differences.std(ddof=1) / math.sqrt(200)
        expected = oracle.t.interval(0.95, 199, differences.mean(), error)
        assert difference_interval(differences.tolist(), 0.05) == pytest.approx(expected, abs=0.1 * error)


def test_eight_tasks_lost_are_believed():
    assert difference_interval(LOST, 0.05) == pytest.approx((-0.5433, -0.2967), abs=1e-4)


@pytest.mark.parametrize("count", [1, 3, 5])
def test_so_few_tasks_leave_everything_open(count):
    assert difference_interval([1.0] * count, 0.05) == (-1.0, 1.0)
    assert difference_interval([1.0] * 20, 0.05, clusters=[number % count for number in range(20)]) == (-1.0, 1.0)


def test_ties_are_no_certainty():
    """No test could show a difference here; the share of tasks that differ is what can be known."""
    for won, lost in ((0, 0), (1, 0), (2, 3)):
        low, high = difference_interval([1.0] * won + [-1.0] * lost + [0.0] * (40 - won - lost), 0.05)
        assert high == pytest.approx(oracle.binomtest(won, 40).proportion_ci(0.95).high)
        assert low == pytest.approx(-oracle.binomtest(lost, 40).proportion_ci(0.95).high)


def test_tasks_that_all_differ_alike_are_no_certainty():
    missed = oracle.binomtest(0, 10).proportion_ci(0.95).high
    assert difference_interval([1.0] * 10, 0.05) == pytest.approx((1.0 - missed, 1.0))
    assert difference_interval([-0.3] * 10, 0.05) == pytest.approx((-0.3 * (1 + missed), -0.3 * (1 - missed)))
    assert difference_interval([0.2, 0.4 - 0.2, 0.9 - 0.7] * 4, 0.05)[0] < 0.16


@given(st.integers(0, 5), st.integers(6, 5000))
def test_the_share_is_the_bound_of_clopper_and_pearson(seen, drawn):
    assert share_at_most(seen, drawn, 0.025) == pytest.approx(oracle.beta.ppf(0.975, seen + 1, drawn - seen))


def test_of_no_more_tasks_than_were_seen_the_share_is_all():
    assert share_at_most(3, 3, 0.025) == 1.0


@pytest.mark.parametrize("count", [9, 30])
def test_who_is_compared_with_whom_and_the_order_of_tasks_change_nothing(count):
    differences = draws(1, count)
    low, high = difference_interval(differences, 0.05)
    assert difference_interval([-each for each in differences], 0.05) == (-high, -low)
    assert difference_interval(differences[::-1], 0.05) == (low, high)


def test_a_p_value_at_the_level_is_small_enough_whatever_rounding_does():
    assert is_told_apart(0.1, 1.0 - 0.9)
    assert not is_told_apart(0.1 + 1e-9, 1.0 - 0.9)


@pytest.mark.parametrize("alpha", [0.05, 0.25, 0.01])
def test_with_fewer_that_differ_than_can_show_anything_0_is_inside(alpha):
    few = [1.0] * (fewest_tasks(alpha) - 1) + [0.0] * 30
    assert differing_of(few) == fewest_tasks(alpha) - 1
    assert not excludes_zero(difference_interval(few, alpha))
    assert excludes_zero(difference_interval([*few, 1.0], alpha))


def test_whole_numbers_are_numbers():
    assert sign_flip([1, 1, -1] * 30) == sign_flip([1.0, 1.0, -1.0] * 30)


def test_fewer_signs_are_drawn_of_very_many():
    assert [draws_of(count) for count in (20, 21, 1_000, 1_001)] == [0, 100_000, 100_000, 20_000]


@pytest.mark.parametrize(("alpha", "tasks"), [(0.05, 6), (1.0 - 0.95, 6), (0.01, 8), (0.5, 2), (0.25, 3), (0.0625, 5)])
def test_so_few_tasks_never_show_anything(alpha, tasks):
    assert fewest_tasks(alpha) == tasks
    assert sign_flip([1.0] * tasks)[0] == least_p_value(tasks) <= alpha < sign_flip([1.0] * (tasks - 1))[0]
