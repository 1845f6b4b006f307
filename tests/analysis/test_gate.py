"""Gates: worse, not worse or inconclusive by the interval alone, and how many tasks would decide."""

from dataclasses import replace

import pytest

from seatrial.analysis.comparison import compare_arms
from seatrial.analysis.gate import GateResult, judge_gate, worst_verdict
from tests.analysis.in_memory import arms, entries, job


def comparison(difference, low, high):
    made = compare_arms(*arms(job("x", entries({"a": [1.0]})), job("y", entries({"a": [1.0]}))))
    assert made.paired is not None
    return replace(made, paired=replace(made.paired, difference=difference, low=low, high=high))


def compared(*differences):
    """Of as many tasks."""
    first, second = ({f"t{at}": [max(0.0, sign * each)] for at, each in enumerate(differences)} for sign in (-1, 1))
    return compare_arms(*arms(job("x", entries(first)), job("y", entries(second))))


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.1, "not worse"),
        (-0.02, 0.1, "not worse"),
        (-0.0201, 0.1, "inconclusive"),
        (-0.2, -0.02, "inconclusive"),
        (-0.2, -0.0201, "worse"),
    ],
)
def test_the_interval_decides(low, high, verdict):
    assert judge_gate(comparison((low + high) / 2, low, high), 0.02).verdict == verdict


@pytest.mark.parametrize(("differences", "margin"), [((1.0, 0.0, 0.0, -1.0, 0.0), 0.1), ((0.0,) * 7, 0.05)])
def test_so_many_tasks_decide(differences, margin):
    """The interval has to lie beyond the margin not only on average, but four times out of five."""
    found = judge_gate(compared(*differences), margin)
    assert found.verdict == "inconclusive"
    assert found.needed is not None
    times = found.needed // len(differences) + 1
    assert judge_gate(compared(*(differences * times)), margin).verdict == "not worse"
    assert judge_gate(compared(*(differences * (times // 4))), margin).verdict == "inconclusive"


def test_where_no_task_differs_as_many_are_named_as_it_takes():
    assert judge_gate(compared(*[0.0] * 30), 0.02).needed == 169
    assert [judge_gate(compared(*[0.0] * tasks), 0.02).verdict for tasks in (168, 169)] == ["inconclusive", "not worse"]


def test_a_difference_at_the_margin_but_for_rounding_is_at_the_margin():
    found = compared(*[-0.2, 0.0] * 5, -0.1)
    assert judge_gate(found, 0.1) == GateResult("inconclusive", 0.1)
    assert judge_gate(compared(*[0.1 - 0.3, 0.0] * 5), 0.1) == GateResult("inconclusive", 0.1)


def test_what_is_not_decided_takes_more_tasks_than_there_were():
    made = compared(*[0.9] * 10)
    assert made.paired is not None
    undecided = replace(made, paired=replace(made.paired, low=-0.03))
    assert judge_gate(undecided, 0.02).needed == 11


def test_nothing_in_common_is_inconclusive():
    found = compare_arms(*arms(job("x", entries({"a": [1.0]})), job("y", entries({"b": [1.0]}))))
    assert judge_gate(found, 0.02) == GateResult("inconclusive", 0.02)


def test_all_gates_have_to_be_passed():
    results = [GateResult("not worse", 0.02), GateResult("inconclusive", 0.02), GateResult("worse", 0.02)]
    assert [worst_verdict(results[:count]) for count in (1, 2, 3)] == ["not worse", "inconclusive", "worse"]
