"""Paired comparisons: scipy and statsmodels as oracles, and what holds for all of them."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as oracle
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from seatrial.stats.paired import (
    AmountDifference,
    Paired,
    Rank,
    amount_difference,
    holm,
    mcnemar,
    paired_difference,
    rank_agents,
)

MEANS = st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=12)


def compared(first, second, clusters=None) -> Paired:
    found = paired_difference(first, second, clusters=clusters)
    assert found
    return found


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
    assert found.low == pytest.approx(-found.high) == pytest.approx(-0.168, abs=1e-3)
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


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_statsmodels_adjusts_the_same(count):
    chance = random.Random(count)
    p_values = [chance.choice((0.0, 0.01, 0.5, 1.0, chance.random() / 10)) for _ in range(count)]
    assert holm(p_values) == pytest.approx(list(multipletests(p_values, method="holm")[1]))


def test_nothing_to_adjust():
    assert holm([]) == []
    assert holm([0.03]) == [0.03]


@given(st.lists(st.floats(0.0, 1.0), max_size=12))
def test_none_gets_smaller_and_their_order_stays(p_values):
    adjusted = holm(p_values)
    assert all(before <= after <= 1.0 for before, after in zip(p_values, adjusted, strict=True))
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    assert [adjusted[index] for index in order] == sorted(adjusted)


def rewards(rate, seed, tasks=60):
    chance = random.Random(seed)
    return {f"task-{number}": float(chance.random() < rate) for number in range(tasks)}


def ranked(*agents, **more) -> tuple[Rank, ...]:
    return rank_agents(*agents, **more).ranks


def seen(ranks):
    return [(each.agent, each.best, each.worst, each.group) for each in ranks]


def test_clear_differences_are_clear_ranks_and_close_ones_are_shared():
    found = ranked({"poor": rewards(0.1, 1), "good": rewards(0.9, 2), "also good": rewards(0.9, 3)})
    assert {each.agent: (each.best, each.worst, each.group) for each in found} == {
        "good": (1, 2, 1),
        "also good": (1, 2, 1),
        "poor": (3, 3, 2),
    }
    assert found[-1].mean == pytest.approx(sum(rewards(0.1, 1).values()) / 60)


def test_the_same_rewards_are_a_tie_in_the_order_of_names():
    same = rewards(0.5, 1)
    assert seen(ranked({"b": same, "a": same, "c": same})) == [("a", 1, 3, 1), ("b", 1, 3, 1), ("c", 1, 3, 1)]


def test_many_comparisons_need_more_than_two():
    """Six tasks of six are p = 0.03: enough for one comparison, not for one of six."""
    six = {str(number): 1.0 for number in range(6)}
    none = dict.fromkeys(six, 0.0)
    assert seen(ranked({"a": six, "b": none})) == [("a", 1, 1, 1), ("b", 2, 2, 2)]
    assert all(each.best == 1 and each.worst == 4 for each in ranked({"a": six, "b": six, "c": none, "d": none}))


def test_a_p_value_at_the_limit_counts_as_it_does_in_comparisons():
    three = {str(number): 1.0 for number in range(3)}
    found = ranked({"a": three, "b": dict.fromkeys(three, 0.0)}, level=0.75)
    assert seen(found) == [("a", 1, 1, 1), ("b", 2, 2, 2)]


def test_agents_without_common_tasks_cannot_be_told_apart():
    assert seen(ranked({"a": {"x": 1.0}, "b": {"y": 0.0}})) == [("a", 1, 2, 1), ("b", 1, 2, 1)]


def test_tasks_of_one_family_are_one_witness():
    six = {str(number): 1.0 for number in range(6)}
    found = ranked({"a": six, "b": dict.fromkeys(six, 0.0)}, clusters=dict.fromkeys(six, "family"))
    assert seen(found) == [("a", 1, 2, 1), ("b", 1, 2, 1)]


def test_agents_without_tasks_have_no_rank():
    assert ranked({}) == ()
    assert seen(ranked({"a": {"x": 1.0}, "idle": {}})) == [("a", 1, 1, 1)]


def test_neither_the_order_of_agents_nor_that_of_tasks_changes_anything():
    agents = {name: rewards(0.3 + 0.15 * index, index) for index, name in enumerate("abcd")}
    mixed = {name: dict(sorted(agents[name].items())) for name in "dbca"}
    assert ranked(mixed) == ranked(agents)


@pytest.mark.parametrize(("tasks", "agents", "least"), [(8, 5, 10 / 2**7), (8, 3, 3 / 2**7), (5, 2, 1 / 2**4)])
def test_so_few_tasks_tell_no_two_apart_whatever_they_did(tasks, agents, least):
    """The smallest p-value of eight tasks is 0.0078: enough for three comparisons, and not for ten."""
    each = {str(number): {str(task): float(number == 0) for task in range(tasks)} for number in range(agents)}
    found = rank_agents(each)
    assert (found.least_p, found.too_few) == (least, least > 0.05)
    assert any(rank.behind for rank in found.ranks) is not found.too_few


def test_those_without_a_common_task_are_not_tested():
    found = rank_agents({"a": {"x": 1.0}, "b": {"y": 0.0}, "c": {"x": 0.0}})
    assert [*found.tests] == [("a", "c")]
    assert not rank_agents({"a": {"x": 1.0}, "b": {"y": 0.0}}).too_few


@pytest.mark.parametrize("tasks", [15, 60])
def test_ranks_and_comparisons_have_the_same_p_values(tasks):
    agents = {name: rewards(0.4 + 0.2 * index, index, tasks) for index, name in enumerate("ab")}
    ((_, test),) = rank_agents(agents, seed=3).tests.items()
    found = paired_difference([*agents["a"].values()], [*agents["b"].values()], seed=3)
    assert found is not None
    assert test.p_value == found.p_value


def test_every_rank_may_be_taken():
    found = ranked({name: rewards(0.2 + 0.12 * index, index) for index, name in enumerate("abcdef")})
    for position, each in enumerate(found, start=1):
        assert 1 <= each.best <= position <= each.worst <= 6
    assert [each.group for each in found] == sorted(each.group for each in found)


def test_rounding_ranks_nobody():
    means = (math.fsum(values) / 3 for values in ((0.1, 0.2, 0.3), (0.2, 0.2, 0.2)))
    one, other = ({f"task-{number}": mean for number in range(25)} for mean in means)
    assert one != other
    assert all((each.best, each.worst) == (1, 2) for each in ranked({"a": one, "b": other}))


PAIRS = st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6)), min_size=2, max_size=30)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_interval_is_that_of_the_paired_t_test(level):
    first, second = [3.0, 10.0, 2.5, 7.0], [4.5, 9.0, 8.0, 7.5]
    found = amount_difference(first, second, level)
    expected = oracle.ttest_rel(second, first).confidence_interval(level)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert (found.tasks, found.first, found.second, found.difference) == (4, 5.625, 7.25, 1.625)


def test_one_task_has_no_interval_and_none_has_nothing():
    assert amount_difference([2.0], [5.0]) == AmountDifference(1, 2.0, 5.0, 3.0, None, None, 0.95)
    assert amount_difference([], []) is None


@given(PAIRS)
def test_who_is_compared_with_whom_only_turns_the_sign(pairs):
    first, second = zip(*pairs, strict=True)
    one, other = amount_difference(first, second), amount_difference(second, first)
    assert one is not None
    assert other is not None
    assert (one.difference, one.low, one.high) == (-other.difference, -(other.high or 0.0), -(other.low or 0.0))
