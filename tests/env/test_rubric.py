"""Rubrics: weighted sums of what functions ask for by name, and functions that fail."""

import asyncio
import pickle
import threading

import pytest

import seatrial as vf
from seatrial.env.parsers import Parser
from seatrial.env.state import new_state
from seatrial.errors import HookError, ProviderError, RewardError, UsageError


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


def test_without_weights_each_function_counts_once():
    assert scored(vf.Rubric([lambda: 1, lambda: 2], []))["reward"] == 3.0


def test_functions_get_the_parser_and_what_providers_name():
    def found(parser, completion, seed):
        return seed + float(parser.parse_answer(completion))

    rubric = vf.Rubric([found], parser=Parser(len))
    rubric.add_score_object_provider(lambda state: {"seed": state["example_id"]})
    assert scored(rubric, example_id=10)["reward"] == 11.0
    assert rubric.class_objects == {"parser": rubric.parser}


def test_a_task_that_is_a_table_offers_its_fields():
    assert scored(vf.Rubric([lambda level, task: level + len(task)]), task={"level": 4})["reward"] == 5.0


def test_rubrics_with_parsers_of_their_own_keep_them_together():
    def found(parser):
        return parser.parse("abc")

    both = vf.Rubric([found], parser=Parser(len)).plus(vf.Rubric([found], parser=Parser(lambda text: 100)))
    assert scored(both)["metrics"] == {"found": 3.0, "found_2": 100.0}


def test_functions_may_be_asked_for_by_every_name_that_environments_use():
    def one():
        return 1

    rubric = vf.Rubric([one], [0.5])
    for names in (rubric.get_reward_func_names(), rubric._get_reward_func_names()):
        assert names == ["one"]
    assert rubric._get_reward_funcs() == rubric.reward_funcs == rubric.get_reward_funcs() == [one]
    assert rubric._get_reward_weights() == rubric.reward_weights == rubric.get_reward_weights() == [0.5]


def test_a_metric_whose_judge_is_gone_is_none_and_a_reward_is_an_error_of_its_kind():
    def judged():
        raise ProviderError("gone")

    metric = scored(vf.Rubric([lambda: 1.0, judged], [1.0, 0.0]))
    assert (metric["reward"], metric["metrics"]["judged"], metric["reward_errors"]) == (1.0, None, {"judged": "gone"})
    with pytest.raises(ProviderError, match="gone"):
        scored(vf.Rubric([judged]))


class Sweeping(vf.Rubric):
    """A rubric with something to clean up."""

    @vf.cleanup(priority=1)
    async def sweep(self, state):
        state["swept"] = ["sweep"]

    @vf.cleanup
    def broken(self):
        raise KeyError("x")

    @vf.teardown
    async def leave(self):
        self.left = True

    @vf.teardown(priority=1)
    def fail_to_leave(self):
        raise OSError("no")


def test_cleanup_runs_every_handler_by_priority_with_what_it_asks_for():
    rubric = Sweeping()
    rubric.add_cleanup_handler(lambda state, answer: state["swept"].append(answer))
    state = scored(rubric, answer="last")
    asyncio.run(rubric.cleanup(state))
    assert state["swept"] == ["sweep", "last"]
    assert state["cleanup_errors"] == ["broken failed: KeyError: 'x'"]


def test_teardown_runs_every_handler_and_then_raises():
    rubric = Sweeping()
    with pytest.raises(HookError, match="fail_to_leave failed: OSError: no"):
        asyncio.run(rubric.teardown())
    assert rubric.left


def test_a_rubric_can_be_sent_to_another_process():
    sent = pickle.loads(pickle.dumps(vf.Rubric([abs_difference], [2.0])))  # noqa: S301 - our own
    assert scored(sent, answer="3")["reward"] == 6.0


def abs_difference(answer):
    return abs(float(answer))
