"""Ranks of several agents: who may be where."""

import math
import random

import pytest

from seatrial.stats.ranks import Rank, rank_agents


def rewards(rate, seed, tasks=60):
    chance = random.Random(seed)
    return {f"task-{number}": float(chance.random() < rate) for number in range(tasks)}


def seen(ranks: list[Rank]):
    return [(each.agent, each.best, each.worst, each.group) for each in ranks]


def test_clear_differences_are_clear_ranks_and_close_ones_are_shared():
    found = rank_agents({"poor": rewards(0.1, 1), "good": rewards(0.9, 2), "also good": rewards(0.9, 3)})
    assert {each.agent: (each.best, each.worst, each.group) for each in found} == {
        "good": (1, 2, 1),
        "also good": (1, 2, 1),
        "poor": (3, 3, 2),
    }
    assert found[-1].mean == pytest.approx(sum(rewards(0.1, 1).values()) / 60)


def test_the_same_rewards_are_a_tie_in_the_order_of_names():
    same = rewards(0.5, 1)
    assert seen(rank_agents({"b": same, "a": same, "c": same})) == [("a", 1, 3, 1), ("b", 1, 3, 1), ("c", 1, 3, 1)]


def test_many_comparisons_need_more_than_two():
    """Six tasks of six are p = 0.03: enough for one comparison, not for one of six."""
    six = {str(number): 1.0 for number in range(6)}
    none = dict.fromkeys(six, 0.0)
    assert seen(rank_agents({"a": six, "b": none})) == [("a", 1, 1, 1), ("b", 2, 2, 2)]
    assert all(each.best == 1 and each.worst == 4 for each in rank_agents({"a": six, "b": six, "c": none, "d": none}))


def test_a_p_value_at_the_limit_counts_as_it_does_in_comparisons():
    three = {str(number): 1.0 for number in range(3)}
    found = rank_agents({"a": three, "b": dict.fromkeys(three, 0.0)}, level=0.75)
    assert seen(found) == [("a", 1, 1, 1), ("b", 2, 2, 2)]


def test_agents_without_common_tasks_cannot_be_told_apart():
    assert seen(rank_agents({"a": {"x": 1.0}, "b": {"y": 0.0}})) == [("a", 1, 2, 1), ("b", 1, 2, 1)]


def test_tasks_of_one_family_are_one_witness():
    six = {str(number): 1.0 for number in range(6)}
    found = rank_agents({"a": six, "b": dict.fromkeys(six, 0.0)}, clusters=dict.fromkeys(six, "family"))
    assert seen(found) == [("a", 1, 2, 1), ("b", 1, 2, 1)]


def test_agents_without_tasks_have_no_rank():
    assert rank_agents({}) == []
    assert seen(rank_agents({"a": {"x": 1.0}, "idle": {}})) == [("a", 1, 1, 1)]


def test_neither_the_order_of_agents_nor_that_of_tasks_changes_anything():
    agents = {name: rewards(0.3 + 0.15 * index, index) for index, name in enumerate("abcd")}
    mixed = {name: dict(sorted(agents[name].items())) for name in "dbca"}
    assert rank_agents(mixed) == rank_agents(agents)


def test_every_rank_may_be_taken():
    found = rank_agents({name: rewards(0.2 + 0.12 * index, index) for index, name in enumerate("abcdef")})
    for position, each in enumerate(found, start=1):
        assert 1 <= each.best <= position <= each.worst <= 6
    assert [each.group for each in found] == sorted(each.group for each in found)


def test_rounding_ranks_nobody():
    means = (math.fsum(values) / 3 for values in ((0.1, 0.2, 0.3), (0.2, 0.2, 0.2)))
    one, other = ({f"task-{number}": mean for number in range(25)} for mean in means)
    assert one != other
    assert all((each.best, each.worst) == (1, 2) for each in rank_agents({"a": one, "b": other}))
