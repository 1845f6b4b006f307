"""Which first trials of an agent say that it never really runs."""

from pathlib import Path
from typing import Any

from seatrial.jobs.agent_watch import AgentWatch
from seatrial.jobs.plan import TrialPlan, plan_trials
from seatrial.model.job import AgentOptions
from seatrial.model.record import TrialRecord, TrialWarning
from seatrial.trial.events import Notice
from tests.jobs.samples import NOOP, Watcher, broken_machine, record

SILENT = TrialWarning(code="no_model_call", message="it never called")
OTHER = AgentOptions(name="noop", label="other")


def plans(count: int, agent: AgentOptions = NOOP) -> list[TrialPlan]:
    return plan_trials([f"t{number}" for number in range(count)], [agent], 1)


def ended(plan: TrialPlan, **changes) -> TrialRecord:
    return record(plan.task_id, agent=plan.agent.title, **changes)


def verdicts(
    trials: list[TrialPlan], *ends: dict[str, Any], order: list[int] | None = None, resumed: bool = False
) -> list[bool]:
    """After which trials the job should stop, finished in a certain order."""
    watch = AgentWatch(trials, Path("job"), lambda _: None, resumed=resumed)
    return [
        bool(watch.note(trials[number], ended(trials[number], **ends[number]))) for number in order or range(len(ends))
    ]


DEAD: dict[str, Any] = {"warnings": (SILENT,)}
WELL: dict[str, Any] = {}
BROKEN: dict[str, Any] = {"failure": broken_machine()}


def test_three_of_many():
    assert verdicts(plans(9), DEAD, DEAD, DEAD) == [False, False, True]


def test_all_where_there_are_fewer():
    assert verdicts(plans(2), DEAD, DEAD) == [False, True]
    assert verdicts(plans(1), DEAD) == [True]


def test_one_that_ran_clears_the_agent_whenever_it_ends():
    assert verdicts(plans(9), DEAD, DEAD, WELL, DEAD, DEAD, DEAD) == [False] * 6


def test_the_first_to_start_decide_not_the_first_to_end():
    assert verdicts(plans(9), WELL, DEAD, DEAD, DEAD, order=[1, 2, 3, 0]) == [False] * 4
    assert verdicts(plans(9), DEAD, DEAD, DEAD, order=[2, 1, 0]) == [False, False, True]


def test_what_a_broken_machine_ended_is_passed_over():
    assert verdicts(plans(9), DEAD, BROKEN, DEAD, DEAD) == [False, False, False, True]
    assert verdicts(plans(2), BROKEN, BROKEN) == [False, False]


def test_the_few_that_were_left_of_a_job_decide_nothing():
    assert verdicts(plans(2), DEAD, DEAD, resumed=True) == [False, False]
    assert verdicts(plans(3), DEAD, DEAD, DEAD, resumed=True) == [False, False, True]


def test_agents_are_judged_apart_and_each_kind_of_warning_is_told_once():
    trials, watcher = [*plans(3), *plans(3, OTHER)], Watcher()
    watch = AgentWatch(trials, Path("job"), watcher)
    assert [bool(watch.note(plan, ended(plan, **DEAD))) for plan in trials[3:]] == [False, False, True]
    assert [bool(watch.note(plan, ended(plan))) for plan in trials[:3]] == [False] * 3
    (told,) = watcher.of(Notice)
    assert "agent 'other', no_model_call in t0.other.1: it never called" in told.text


def test_other_warnings_are_told_and_stop_nothing():
    odd = {"warnings": (TrialWarning(code="odd", message="hm"),)}
    assert verdicts(plans(3), odd, odd, odd) == [False] * 3
