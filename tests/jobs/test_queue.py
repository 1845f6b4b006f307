"""Handing out trials until there are none, a budget is used up, or somebody closes the queue."""

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


def test_a_queue_that_is_closed_hands_out_and_starts_nothing():
    queue = TrialQueue(PLANS)
    assert queue.take() == PLANS[0]
    assert queue.start()
    queue.close("wall budget")
    queue.close("agent warnings")
    assert queue.take() is None
    assert not queue.start()
    assert (queue.started, queue.stopped, queue.closed.is_set()) == (1, "wall budget", True)
