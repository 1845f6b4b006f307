"""The state behind the displays: running trials, counts, a mean over scored trials, and how long it will take."""

from typing import Any

from seatrial.cli.progress_board import Board
from seatrial.model.record import ModelUsage
from seatrial.store.index import entry_of
from seatrial.trial.events import (
    Event,
    PhaseStarted,
    RolloutFinished,
    TrialFinished,
    TrialPassedOver,
    TrialRetried,
    TrialStarted,
)
from tests.cli.job_folders import BROKEN, FLAKY, record
from tests.store.test_revisions import revision


def started(name: str, tries: int = 1) -> Event:
    return TrialStarted(name, name, "oracle", tries)


def finished(name: str, result: Any) -> Event:
    return TrialFinished(record(name, result, trial_id=name))


def test_it_follows_a_trial():
    board = Board(2, [], 0.0)
    board.apply(started("a"), 1.0)
    assert board.running["a"].phase == "waiting"
    board.apply(PhaseStarted("a", "agent", "first"), 2.0)
    assert (board.running["a"].phase, board.running["a"].since) == ("agent (first)", 1.0)
    board.apply(TrialRetried("a", 1, FLAKY), 3.0)
    assert (board.running, board.retries) == ({}, 1)
    board.apply(started("a", 2), 4.0)
    board.apply(finished("a", 0.5), 5.0)
    assert (board.running, board.finished, board.means()) == ({}, 1, {"oracle": 0.5})


def test_what_is_passed_over_runs_no_more_and_counts_for_nothing():
    board = Board(1, [], 0.0)
    board.apply(started("a"), 1.0)
    board.apply(TrialPassedOver("a", "no end state was kept"), 2.0)
    assert (board.running, board.finished) == ({}, 0)


def test_a_trial_that_is_judged_again_is_not_paid_for_again():
    board = Board(1, [], 0.0)
    board.apply(TrialFinished(revision(1, 0.5, model_usage=ModelUsage(calls=1, cost_usd=2.0))), 1.0)
    assert (board.finished, board.cost_usd) == (1, None)


def test_only_scored_trials_are_in_the_mean():
    board = Board(4, [], 0.0)
    for name, result in (("a", 1.0), ("b", "verifier_error"), ("c", BROKEN), ("d", "no_output")):
        board.apply(finished(name, result), 1.0)
    assert (board.finished, board.means()) == (4, {"oracle": 0.5})


def test_each_agent_has_its_own_mean_by_the_name_it_has_in_the_job():
    board = Board(3, [], 0.0)
    for name, title, result in (("a", "mine", 1.0), ("b", "mine", 0.0), ("c", "theirs", 1.0)):
        board.apply(TrialStarted(name, name, title), 0.0)
        board.apply(finished(name, result), 1.0)
    assert board.means() == {"mine": 0.5, "theirs": 1.0}


def test_the_rest_takes_as_long_as_it_did_so_far():
    earlier = entry_of(record("x", 1.0), "oracle")
    board = Board(10, [earlier, earlier], 0.0)
    assert board.remaining_sec(5.0) is None
    assert (board.finished, board.means()) == (2, {"oracle": 1.0})
    for index in range(4):
        board.apply(finished(str(index), 1.0), 8.0)
    assert board.remaining_sec(8.0) == 8.0


def test_events_of_trials_it_does_not_know_are_taken_as_they_come():
    board = Board(1, [], 0.0)
    board.apply(PhaseStarted("late", "verify"), 1.0)
    assert board.running["late"].phase == "verify"


def test_what_is_known_to_be_spent_adds_up():
    paid: dict[str, Any] = {"model_usage": ModelUsage(calls=1, cost_usd=0.25)}
    board = Board(4, [entry_of(record("x", 1.0), "oracle")], 0.0)
    board.apply(finished("a", 1.0), 1.0)
    assert board.cost_usd is None
    for name in "bc":
        board.apply(TrialFinished(record(name, 1.0, trial_id=name, **paid)), 1.0)
    assert board.cost_usd == 0.5
    assert Board(4, [entry_of(record("x", 1.0, **paid), "oracle")], 0.0).cost_usd == 0.25


def test_rollouts_are_counted_by_what_their_outputs_say():
    board = Board(3, [], 0.0)
    for end in (
        RolloutFinished("example 0.1", "toy", "pass", 1.0),
        RolloutFinished("example 0.2", "toy", "infrastructure_error"),
        RolloutFinished("example 0.3", "toy", None),
    ):
        board.apply(end, 1.0)
    assert (board.finished, board.unjudged, board.means()) == (3, 1, {"toy": 1.0})
