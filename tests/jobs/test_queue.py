"""Handing out trials within budgets, by a clock that the test winds."""

from seatrial.jobs.plan import plan_trials
from seatrial.jobs.queue import TrialQueue
from tests.jobs.samples import NOOP

PLANS = plan_trials(["a", "b", "c"], [NOOP], 1)


def taken(queue: TrialQueue) -> list[str]:
    return [plan.task_id for plan in iter(queue.take, None)]


def test_all_in_order():
    queue = TrialQueue(PLANS)
    assert (taken(queue), queue.stopped) == (["a", "b", "c"], "complete")


def test_a_budget_of_trials():
    queue = TrialQueue(PLANS, max_trials=2)
    assert (taken(queue), queue.stopped) == (["a", "b"], "trial budget")


def test_a_budget_that_is_enough_is_not_used_up():
    queue = TrialQueue(PLANS, max_trials=3)
    assert (taken(queue), queue.stopped) == (["a", "b", "c"], "complete")


def test_a_budget_of_time():
    now = [100.0]
    queue = TrialQueue(PLANS, max_wall_sec=10, clock=lambda: now[0])
    assert queue.take() == PLANS[0]
    assert queue.start()
    now[0] = 110.0
    assert queue.take() is None
    assert not queue.start()
    assert (queue.started, queue.stopped) == (1, "wall budget")


def test_time_that_runs_out_after_the_last_trial_does_not_matter():
    now = [0.0]
    queue = TrialQueue(PLANS, max_wall_sec=10, clock=lambda: now[0])
    for _ in PLANS:
        assert queue.take()
        assert queue.start()
    now[0] = 11.0
    assert queue.take() is None
    assert queue.stopped == "complete"
