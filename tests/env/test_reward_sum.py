"""What reward functions say of one rollout, added up."""

import pytest

from seatrial.env.reward_sum import RewardSum
from seatrial.env.rubric_calls import RewardCall
from seatrial.env.state import State
from seatrial.errors import ProviderError, RewardError


def call(name):
    def func():
        return 0

    func.__name__ = name
    return RewardCall(func)


def test_numbers_are_weighted_and_kept_by_name():
    state = State()
    added = RewardSum(state)
    added.take(call("a"), 2.0, 1)
    added.take(call("a"), 0.0, True)
    added.settle()
    assert state == {"metrics": {"a": 1.0, "a_2": 1.0}, "reward": 2.0}


def test_the_first_failure_that_has_a_weight_is_raised_and_no_reward_is_written():
    state = State()
    added = RewardSum(state)
    added.fail(call("metric"), 0.0, ProviderError("unheard"))
    added.take(call("text"), 1.0, "no number")
    added.fail(call("judged"), 1.0, ProviderError("too late"))
    added.skip(call("skipped"))
    with pytest.raises(RewardError, match="the reward function text failed: ValueError"):
        added.settle()
    assert state["metrics"] == {"metric": None, "text": None, "judged": None, "skipped": None}
    assert state["reward_errors"].keys() == {"metric", "text", "judged"}
    assert "reward" not in state
