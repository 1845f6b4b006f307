"""Two arms on the same tasks: the verdict in a word, and the tasks that flipped with the trials that show it."""

from dataclasses import replace

import pytest

from seatrial.analysis.comparison import compare_arms
from tests.analysis.in_memory import arms, entries, job


def compared(first, second, **options):
    return compare_arms(*arms(job("x", entries(first)), job("y", entries(second))), **options)


def tasks(count, reward):
    return {f"t{index:02}": [reward] for index in range(count)}


def test_only_tasks_that_both_were_judged_on_count():
    found = compared({"a": [1.0, 0.0], "b": [1.0], "c": [None]}, {"a": [1.0], "c": [1.0], "d": [1.0]})
    assert [(pair.task_id, pair.first, pair.second) for pair in found.pairs] == [("a", 0.5, 1.0)]
    assert compared({"a": [1.0]}, {"b": [1.0]}).paired is None


@pytest.mark.parametrize(
    ("count", "first", "second", "verdict"),
    [
        (20, 0.0, 1.0, "better"),
        (20, 1.0, 0.0, "worse"),
        (20, 0.5, 0.5, "no difference seen"),
        (5, 0.0, 1.0, "inconclusive"),
        (6, 0.0, 1.0, "better"),
        (8, 0.0, 1.0, "better"),
        (0, 0.0, 1.0, "inconclusive"),
    ],
)
def test_the_verdict(count, first, second, verdict):
    assert compared(tasks(count, first), tasks(count, second)).verdict == verdict


def test_a_difference_is_believed_only_where_interval_and_p_value_both_speak_for_it():

    better = compared(tasks(20, 0.0), tasks(20, 1.0))
    assert better.paired is not None
    assert replace(better, adjusted_p=0.2).verdict == "no difference seen"
    wide = replace(better, paired=replace(better.paired, low=-0.1))
    assert wide.verdict == "inconclusive"


def test_flips_name_the_trials_that_show_them_first():
    found = compared(
        {"gain": [1.0, 0.0, 0.0], "same": [1.0], "drop": [1.0, 1.0], "half": [1.0, 0.0]},
        {"gain": [0.0, 1.0, 1.0], "same": [1.0], "drop": [0.9, 0.0], "half": [0.0, 0.0]},
    )
    (gained,), (dropped,) = found.gained, found.dropped
    assert gained.task_id == "gain"
    assert gained.first[0] == "gain.oracle.2"
    assert gained.second == ("gain.oracle.2", "gain.oracle.3", "gain.oracle.1")
    assert (dropped.task_id, len(dropped.first), len(dropped.second)) == ("drop", 2, 2)


def test_wins_and_losses_are_in_the_order_of_their_size():
    found = compared({"a": [0.5], "b": [0.0], "c": [1.0]}, {"a": [0.6], "b": [1.0], "c": [0.2]})
    assert [pair.task_id for pair in found.won] == ["b", "a"]
    assert [pair.task_id for pair in found.lost] == ["c"]


def test_tasks_of_one_family_are_no_more_than_one_when_it_is_asked_so():
    first, second = tasks(20, 0.0), tasks(20, 1.0)
    families = dict.fromkeys(first, "one")
    found = compare_arms(*arms(job("x", entries(first)), job("y", entries(second))), families=families)
    assert (found.family_count, found.too_few, found.verdict) == (1, True, "inconclusive")
    half = dict.fromkeys(list(first)[10:], "t00")  # a family with the name of a task is not that task
    assert compare_arms(*arms(job("x", entries(first)), job("y", entries(second))), families=half).family_count == 11


def test_mcnemar_is_the_sign_flip_test_of_one_binary_trial_each():
    first = {f"t{index}": [float(index < 20)] for index in range(60)}
    many = compared(first, {task: [float(task == "t1")] for task in first})
    assert many.paired is not None
    assert (many.paired.wins, many.paired.losses) == (0, 19)
    assert many.mcnemar_p == many.paired.p_value == 2 / 2**19
    more = compared(
        {task: [0.0] for task in first}, {task: [float(index % 3 == 0)] for index, task in enumerate(first)}
    )
    assert more.mcnemar_p == pytest.approx(2 / 2**20)
    assert compared({"a": [0.5]}, {"a": [1.0]}).mcnemar_p is None
    assert compared({"a": [0.0, 1.0]}, {"a": [1.0]}).mcnemar_p is None
