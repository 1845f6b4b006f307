"""Two ways of counting the same trials, and the way from one number to the other."""

import pytest

from seatrial.integrations.means import CountedTrial, compare_means


def changes(stored, trials, scale=""):
    found = compare_means("agent", stored, trials, "they count it as 0", scale)
    assert found.mean is not None
    if stored is not None:
        assert stored + sum(reason.change for reason in found.reasons) == pytest.approx(found.mean)
    return found.mean, [reason.text for reason in found.reasons]


def test_the_same_number_needs_no_reason():
    assert changes(0.5, [CountedTrial("a", 1.0, 1.0), CountedTrial("b", 0.0, 0.0)]) == (0.5, [])


def test_trials_without_a_verdict_leave_the_mean():
    trials = [CountedTrial("a", 1.0, 1.0), CountedTrial("b", 0.0, None)]
    mean, (reason,) = changes(0.5, trials)
    assert mean == 1.0
    assert reason == "1 trial without a verdict is in no mean here; they count it as 0"


def test_tasks_with_more_trials_weigh_no_more():
    trials = [CountedTrial("a", 1.0, 1.0), CountedTrial("a", 1.0, 1.0), CountedTrial("b", 0.0, 0.0)]
    mean, (reason,) = changes(2 / 3, trials)
    assert mean == 0.5
    assert "tasks weigh the same" in reason


def test_a_stored_mean_that_does_not_follow_is_told():
    mean, (reason,) = changes(0.9, [CountedTrial("a", 0.5, 0.5)])
    assert mean == 0.5
    assert "is not that of these trials" in reason


def test_a_range_that_was_mapped_is_told():
    mean, (reason,) = changes(2.0, [CountedTrial("a", 2.0, 0.5)], "mapped")
    assert (mean, reason) == (0.5, "mapped")


def test_without_verdicts_there_is_no_mean():
    found = compare_means("agent", 0.0, [CountedTrial("a", 0.0, None)], "rule", "")
    assert (found.mean, found.scored, found.trials, found.reasons) == (None, 0, 1, [])


def test_without_a_stored_mean_there_is_nothing_to_explain():
    assert changes(None, [CountedTrial("a", 1.0, 1.0)]) == (1.0, [])
