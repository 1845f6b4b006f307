"""Planning: the parts of the variance come from the trials, and more attempts help only against chance."""

import math

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.analysis.power import PlanAsked, half_width, plan_power, split_of, variance_of_one, variance_of_two
from seatrial.errors import JobError
from seatrial.report.compared import attempts_line, power_table
from tests.analysis.in_memory import entries, job

ASKED = PlanAsked(difference=0.1, tasks=50, attempts=2)


def arms(**rewards):
    return arms_of([job("x", [trial for agent, tasks in rewards.items() for trial in entries(tasks, agent)])])


def test_two_agents_that_always_do_the_same_need_tasks_and_no_attempts():
    easy = {f"t{index}": [float(index % 2)] * 3 for index in range(10)}
    none = {task: [0.0] * 3 for task in easy}
    variance = variance_of_two(*arms(p=none, q=easy))
    assert (variance.within, variance.attempts, variance.source) == (0.0, 3.0, "two agents")
    assert variance.between == pytest.approx(10 / 36)
    plan = plan_power(ASKED, variance)
    assert len({row.needed for row in plan.rows}) == 1
    assert plan.more_attempts is not None
    assert plan.more_attempts.attempts is None
    assert plan.more_attempts.floor == pytest.approx(2.80 * math.sqrt(10 / 36 / 50), rel=0.15)


def test_chance_alone_is_cured_by_attempts():
    coin = {f"t{index}": [float(index % 2), float(index % 2 == 0)] for index in range(10)}
    variance = variance_of_two(*arms(p=coin, q=coin))
    assert (variance.between, variance.within) == (0.0, 1.0)
    plan = plan_power(ASKED, variance)
    needed = [row.needed for row in plan.rows]
    assert [row.attempts for row in plan.rows] == [1, 2, 4, 8]
    assert needed == [787, 395, 199, 101]  # (2.80 · sd / 0.1)² with sd² of 1, 1/2, 1/4 and 1/8, and a few more
    assert plan.more_attempts is not None
    assert plan.more_attempts.attempts == 17


def test_fewer_tasks_than_can_show_anything_show_nothing():
    coin = {f"t{index}": [float(index % 2), float(index % 2 == 0)] for index in range(4)}
    plan = plan_power(PlanAsked(difference=0.9, tasks=4, attempts=2), variance_of_two(*arms(p=coin, q=coin)))
    assert [(row.needed, row.detectable) for row in plan.rows][1:] == [(8, None), (6, None), (6, None)]
    assert plan.more_attempts is None
    assert power_table(plan).rows[0][-1] == "nothing"
    assert attempts_line(plan) == "4 tasks show nothing, with any number of attempts: it takes 6 at least"


def test_one_agent_is_planned_for_the_worst_case_unless_told_otherwise():
    (arm,) = arms(p={"a": [1.0], "b": [0.0], "c": [1.0], "d": [0.0]})
    alone, like = variance_of_one(arm), variance_of_one(arm, correlation=0.5)
    assert alone.between == pytest.approx(2 / 3)
    assert like.between == pytest.approx(1 / 3)
    assert alone.within is None


def test_without_repeated_attempts_only_as_many_as_there_were_can_be_planned():
    (arm,) = arms(p={"a": [1.0], "b": [0.0]})
    plan = plan_power(ASKED, variance_of_one(arm))
    assert [(row.attempts, row.needed is None, row.detectable is None) for row in plan.rows] == [
        (1, False, False),
        (2, True, True),
    ]
    assert plan.more_attempts is None
    assert half_width(arm, ASKED) is None
    assert half_width(arm, PlanAsked(0.1, 50, 1)) == pytest.approx(1.96 * math.sqrt(0.5 / 50), rel=0.05)


def test_repeated_verdicts_are_the_verifier_s_part():
    trials = entries({"a": [1.0, 1.0], "b": [0.0, 0.0]})
    doubted = [trial._replace(repeats=(0.0, 1.0)) if trial.task_id == "a" else trial for trial in trials]
    (arm,) = arms_of([job("x", doubted)])
    split = split_of(arm)
    assert (split.verifier, split.within) == (0.5, 0.0)


@pytest.mark.parametrize("rewards", [{"a": [1.0]}, {}])
def test_too_few_tasks_have_no_variance(rewards):
    (arm,) = arms_of([job("x", entries(rewards))])
    with pytest.raises(JobError, match="fewer than two judged tasks"):
        variance_of_one(arm)
    with pytest.raises(JobError, match="fewer than two judged tasks in common"):
        variance_of_two(arm, arm)


def test_nothing_that_varies_is_nothing_to_plan_from():
    (arm,) = arms(p={"a": [1.0, 1.0], "b": [1.0, 1.0]})
    with pytest.raises(JobError, match="--sd"):
        plan_power(ASKED, variance_of_one(arm))


def test_what_chance_adds_is_no_difference_between_tasks():
    mixed = {"a": [1.0, 1.0], "b": [0.0, 0.0], "c": [1.0, 0.0], "d": [0.0, 1.0]}
    variance = variance_of_two(*arms(p=mixed, q={task: [0.0, 0.0] for task in mixed}))
    assert variance.within == pytest.approx(1 / 4)
    assert variance.between == pytest.approx(
        1 / 6 - 1 / 4 / 2
    )  # of the means that were seen, less chance in two attempts
