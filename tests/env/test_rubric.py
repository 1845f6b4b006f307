"""Rubrics: weighted sums of what functions ask for by name, and functions that fail."""

import asyncio
import threading

import pytest

import seatrial as vf
from seatrial.env.state import new_state
from seatrial.errors import RewardError, UsageError


def scored(rubric, **row):
    state = new_state({"prompt": "q", **row}, "m", None)
    state["completion"] = [{"role": "assistant", "content": "a"}]
    try:
        asyncio.run(rubric.score_rollout(state))
    except RewardError as error:
        state["error"] = error
    return state


def test_the_reward_is_the_weighted_sum_and_metrics_have_no_weight():
    def half(completion):
        return len(completion) / 2

    async def right(answer, info):
        return answer == info["truth"]

    rubric = vf.Rubric([half, right], [1.0, 0.2])
    rubric.add_metric(lambda state: state["example_id"])
    state = scored(rubric, answer="x", info={"truth": "x"}, example_id=5)
    assert state["reward"] == pytest.approx(0.7)
    assert state["metrics"] == {"half": 0.5, "right": 1.0, "<lambda>": 5.0}


def test_functions_get_by_name_what_they_ask_for_and_with_kwargs_all_of_it():
    seen = {}

    def all_of_it(**kwargs):
        seen.update(kwargs)
        return 0

    def one_column(difficulty, prompt, task, judge):
        return judge + difficulty

    rubric = vf.Rubric([all_of_it, one_column])
    rubric.add_class_object("judge", 2)
    assert scored(rubric, difficulty=3)["reward"] == 5.0
    assert {"prompt", "completion", "answer", "state", "task", "info", "difficulty", "judge"} <= seen.keys()


def test_functions_run_in_their_order_and_share_the_state():
    async def first(state):
        state["found"] = 0.25
        return 0

    assert scored(vf.Rubric([first, lambda state: state["found"]]))["reward"] == 0.25


def test_a_plain_function_does_not_keep_the_loop_waiting():
    def blocking():
        return float(threading.current_thread() is threading.main_thread())

    assert scored(vf.Rubric([blocking]))["reward"] == 0.0


def test_a_metric_that_raises_is_none_and_costs_nobody_the_reward():
    def broken(completion):
        raise KeyError("x")

    rubric = vf.Rubric([lambda: 1.0])
    rubric.add_metric(broken)
    state = scored(rubric)
    assert (state["reward"], state["metrics"]["broken"], state["error"]) == (1.0, None, None)
    assert state["reward_errors"] == {"broken": "the reward function broken failed: KeyError: 'x'"}


@pytest.mark.parametrize("value", ["nothing", None, float("nan"), float("inf"), []])
def test_a_reward_function_without_a_number_leaves_no_reward(value):
    def broken():
        return value

    state = scored(vf.Rubric([lambda: 1.0, broken]))
    assert state["reward"] is None
    assert state["metrics"] == {"<lambda>": 1.0, "broken": None}
    assert isinstance(state["error"], RewardError)


def test_two_functions_of_one_name_are_told_apart():
    assert scored(vf.Rubric([lambda: 1, lambda: 2]))["metrics"] == {"<lambda>": 1.0, "<lambda>_2": 2.0}


def test_an_empty_rubric_leaves_the_reward_to_the_environment():
    state = scored(vf.Rubric())
    assert (state["reward"], state["metrics"]) == (None, {})


def test_weights_and_functions_have_to_match():
    with pytest.raises(UsageError, match="1 functions but 2 weights"):
        vf.Rubric([lambda: 1], [1.0, 2.0])


def test_two_rubrics_together_leave_each_as_it_was():
    one, other = vf.Rubric([lambda: 1]), vf.Rubric([lambda: 2], [0.5])
    assert scored(one.plus(other))["reward"] == 2.0
    assert (len(one.funcs), len(other.funcs)) == (1, 1)
