"""A comparison in detail: parts of the breakdown, labels of tasks and amounts, each with the tasks it rests on."""

from seatrial.analysis.comparison import compare_arms
from seatrial.analysis.contrasts import dimension_differences, group_differences, measured_differences
from seatrial.model.job import TaskLabels
from tests.analysis.in_memory import arms, entry, job


def compared(first, second, **more):
    return compare_arms(*arms(job("x", first, **more), job("y", second, **more)))


def test_only_parts_that_both_have_are_compared_and_only_where_both_have_them():
    first = [entry("a", 0.5, dimensions={"speed": 0.5, "own": 1.0}), entry("b", 0.5, dimensions={"speed": 0.0})]
    second = [entry("a", 1.0, dimensions={"speed": 1.0, "new": 1.0}), entry("b", 1.0)]
    (part,) = dimension_differences(compared(first, second))
    assert (part.name, part.first, part.second, part.tasks) == ("speed", 0.5, 1.0, 1)


def test_differences_by_label_leave_out_tasks_without_one():
    labels = {"a": TaskLabels(category="x", tags=("p", "q")), "b": TaskLabels(category="y", tags=("q",))}
    first = [entry(task, 0.0) for task in "abc"]
    found = compared(first, [entry("a", 1.0), entry("b", 0.5), entry("c", 1.0)], labels=labels)
    by_category = {part.name: (part.difference, part.tasks) for part in group_differences(found, "category")}
    assert by_category == {"x": (1.0, 1), "y": (0.5, 1)}
    assert {part.name: part.tasks for part in group_differences(found, "tag")} == {"p": 1, "q": 2}
    assert group_differences(found, "difficulty") == []


def test_the_part_that_is_all_of_it_has_the_interval_of_the_whole():
    labels = {f"t{index}": TaskLabels(category="x") for index in range(10)}
    first = [entry(task, float(index % 2)) for index, task in enumerate(labels)]
    found = compared(first, [entry(task, float(index % 3 > 0)) for index, task in enumerate(labels)], labels=labels)
    (part,) = group_differences(found, "category")
    assert found.paired is not None
    assert (part.difference, part.low, part.high) == (found.paired.difference, found.paired.low, found.paired.high)


def test_amounts_are_means_over_the_tasks_where_both_know_them_of_every_trial():
    first = [entry("a", 1.0, cost_usd=1.0), entry("a", 1.0, attempt=2, cost_usd=3.0), entry("b", 1.0, cost_usd=9.0)]
    second = [entry("a", 1.0, cost_usd=5.0), entry("b", 1.0, cost_usd=1.0), entry("b", 1.0, attempt=2)]
    cost, time = measured_differences(compared(first, second))
    assert (cost.name, cost.unit, cost.amounts.tasks) == ("cost", "USD", 1)
    assert (cost.amounts.first, cost.amounts.second, cost.amounts.difference) == (2.0, 5.0, 3.0)
    assert cost.amounts.low is cost.amounts.high is None  # one task has no interval
    assert (time.name, time.amounts.tasks, time.amounts.low, time.amounts.high) == ("whole time", 2, 0.0, 0.0)
