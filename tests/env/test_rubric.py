"""Rubrics: weighted sums of what functions ask for by name, and functions that fail."""

import asyncio
import functools
import gc
import pickle
import threading
import weakref

import pytest

import seatrial as vf
from seatrial.env.hooks import advantage
from seatrial.env.parsers import Parser
from seatrial.env.rollout import State, new_state
from seatrial.env.rubric import (
    FIRST_PROOFS,
    MOST_THREADS,
    QUICK_SEC,
    SLOW_SEC,
    Pace,
    RewardCall,
    RewardSum,
    Rubric,
    new_name,
)
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


def value_of(func, **offered):
    return asyncio.run(RewardCall(func).value(offered))


def after(pace, *seconds):
    for each in seconds:
        pace.note(each)
    return pace.on_loop


def test_a_function_comes_to_the_loop_after_a_few_quick_calls_in_a_row():
    quick = [QUICK_SEC / 10] * (FIRST_PROOFS - 1)
    pace = Pace()
    assert not after(pace, *quick)
    assert not after(pace, QUICK_SEC * 2, *quick)
    assert after(pace, QUICK_SEC / 10)


def test_a_slow_call_on_the_loop_sends_it_back_to_threads_for_longer_each_time():
    pace = Pace()
    quick = [0.0] * FIRST_PROOFS
    assert after(pace, *quick, SLOW_SEC)
    assert not after(pace, SLOW_SEC * 2, *quick)
    assert after(pace, *quick)
    assert not after(pace, SLOW_SEC * 2, *quick, *quick)


def test_a_quick_function_leaves_its_thread_and_a_slow_one_never_does(monkeypatch):
    def on_loop():
        return threading.current_thread() is threading.main_thread()

    async def ask_often(seconds):
        clock = iter(range(1000))
        monkeypatch.setattr("seatrial.env.rubric.time.perf_counter", lambda: next(clock) * seconds)
        call = RewardCall(on_loop)
        return [await call.value({}) for _ in range(FIRST_PROOFS + 1)]

    assert asyncio.run(ask_often(QUICK_SEC / 2)) == [False] * FIRST_PROOFS + [True]
    assert asyncio.run(ask_often(QUICK_SEC * 2)) == [False] * (FIRST_PROOFS + 1)


def test_a_function_gets_what_it_names_and_with_kwargs_all():
    assert value_of(lambda answer: answer, answer=1, state=2) == 1
    assert value_of(lambda **all_of_it: sorted(all_of_it), answer=1, state=2) == ["answer", "state"]
    assert value_of(lambda missing=7: missing, answer=1) == 7


class Half:
    """An object that is called, and async."""

    async def __call__(self, answer):
        return answer / 2


@pytest.mark.parametrize("func", [Half(), functools.partial(Half().__call__), lambda answer: Half()(answer * 1)])
def test_whatever_is_awaited_in_the_end_is(func):
    assert value_of(func, answer=3) == 1.5


@pytest.mark.parametrize("raised", [StopIteration, KeyError("x"), SystemExit(1)])
def test_whatever_a_function_raises_is_a_reward_error_in_a_thread_and_on_the_loop(raised):
    def broken():
        raise raised

    call = RewardCall(broken)
    for on_loop in (False, True):
        call.pace.on_loop = on_loop
        with pytest.raises(RewardError, match="the reward function broken failed"):
            asyncio.run(call.value({}))


def test_an_error_of_ours_stays_what_it_is():
    def misused():
        raise UsageError("no")

    with pytest.raises(UsageError, match="no"):
        value_of(misused)


def test_plural_arguments_or_a_list_as_result_make_a_function_of_a_group():
    def listed(state) -> list[float]:
        return []

    def quoted(state) -> "list[float]":
        return []

    def single(state, completion, **kwargs) -> float:
        return 0.0

    assert all(RewardCall(func).is_group for func in (lambda states: 0, lambda parser, infos: 0, listed, quoted))
    assert not RewardCall(single).is_group


def test_what_has_no_signature_is_refused_by_name():
    with pytest.raises(RewardError, match="the reward function max failed"):
        RewardCall(max)


def test_names_that_are_taken_get_a_number():
    assert [new_name("a", taken) for taken in ([], ["a"], ["a", "a_2"])] == ["a", "a_2", "a_3"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit, SystemExit])
def test_code_of_a_model_that_a_function_runs_cannot_end_the_program(error):
    def runs_code(completion):
        raise error

    with pytest.raises(RewardError, match=error.__name__):
        value_of(runs_code, completion=[])


def test_nobody_waits_for_the_thread_of_a_function_when_the_program_ends():
    assert value_of(lambda: threading.current_thread().daemon)


def test_only_so_many_functions_are_in_threads_at_once():
    most, at_once, lock = [0], [0], threading.Lock()

    def busy():
        with lock:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        threading.Event().wait(0.002)
        with lock:
            at_once[0] -= 1

    async def all_of_them():
        await asyncio.gather(*(RewardCall(busy).value({}) for _ in range(3 * MOST_THREADS)))

    asyncio.run(all_of_them())
    assert 1 < most[0] <= MOST_THREADS


def test_an_event_loop_that_has_ended_is_not_kept():
    loops = []

    async def crowd():
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.gather(*(RewardCall(lambda: 1.0).value({}) for _ in range(2 * MOST_THREADS)))

    for _ in range(3):
        asyncio.run(crowd())
    gc.collect()
    assert sum(loop() is not None for loop in loops) <= 1


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


def state_of(said, **row):
    state = new_state({"prompt": "q", "task": "t", **row}, "m", None)
    state["completion"] = [{"role": "assistant", "content": said}]
    state["trajectory"].append({"reward": None, "advantage": None})
    return state


def group_scoring_scored(rubric, *states):
    asyncio.run(rubric.score_group(list(states)))
    return list(states)


def length(completion):
    return len(completion[-1]["content"])


def longest(completions):
    lengths = [len(each[-1]["content"]) for each in completions]
    return [float(each == max(lengths)) for each in lengths]


def values(states, key):
    return [state[key] for state in states]


def test_functions_of_a_group_and_of_one_rollout_are_weighted_alike():
    states = group_scoring_scored(Rubric([length, longest], [0.5, 10]), state_of("aa"), state_of("aaaa"))
    assert values(states, "reward") == [1.0, 12.0]
    assert values(states, "metrics") == [{"length": 2.0, "longest": 0.0}, {"length": 4.0, "longest": 1.0}]


def test_functions_of_a_group_get_columns_by_their_plurals_and_objects_by_name():
    def seen(answers, infos, tasks, states, parser, bonus):
        assert (answers, infos, tasks) == (["x", "y"], [{"n": 1}, {"n": 2}], ["t", "t"])
        assert parser.parse("x") == "x"
        return [bonus + state["example_id"] for state in states]

    rubric = Rubric([seen])
    rubric.add_group_score_object_provider(lambda states: {"bonus": len(states)})
    rows = [{"answer": "x", "info": {"n": 1}, "example_id": 5}, {"answer": "y", "info": {"n": 2}, "example_id": 6}]
    assert values(group_scoring_scored(rubric, *(state_of("a", **row) for row in rows)), "reward") == [7.0, 8.0]


def test_a_function_of_a_group_sees_what_earlier_ones_wrote_and_later_ones_see_it():
    async def first(state):
        state["found"] = 2
        return 0

    def middle(states):
        for state in states:
            state["found"] *= len(states)
        return [0] * len(states)

    rubric = Rubric([first, middle, lambda state: state["found"]])
    assert values(group_scoring_scored(rubric, state_of("a"), state_of("b"), state_of("c")), "reward") == [
        6.0,
        6.0,
        6.0,
    ]


def test_rollouts_that_failed_are_left_alone_and_count_for_nothing():
    failed = state_of("a" * 100)
    failed["error"] = error = ProviderError("gone")
    states = group_scoring_scored(Rubric([length, longest]), state_of("a"), failed, state_of("aa"))
    assert values(states, "reward") == [1.0, None, 3.0]
    assert failed["error"] is error
    assert failed["metrics"] is None
    assert [states[0]["advantage"], states[2]["advantage"]] == [-1.0, 1.0]


def test_one_that_cannot_be_scored_is_not_compared_with_the_others():
    def picky(completion):
        return 1 / (len(completion[-1]["content"]) - 1)

    broken, fine = group_scoring_scored(Rubric([picky, longest]), state_of("a"), state_of("aa"))
    assert isinstance(broken["error"], RewardError)
    assert (broken["reward"], broken["advantage"]) == (None, None)
    assert broken["metrics"] == {"picky": None, "longest": None}
    assert (fine["reward"], fine["advantage"], fine["error"]) == (2.0, 0.0, None)


@pytest.mark.parametrize("said", [[1.0], 1.0, None])
def test_a_function_of_a_group_that_says_nothing_of_each_leaves_no_reward(said):
    def wrong(states):
        return said

    states = group_scoring_scored(Rubric([length, wrong]), state_of("a"), state_of("b"))
    assert values(states, "reward") == [None, None]
    assert all(isinstance(state["error"], RewardError) for state in states)


def test_a_metric_of_a_group_that_fails_is_none():
    rubric = Rubric([length])
    rubric.add_metric(lambda states: [1.0, "no number"])
    one, other = group_scoring_scored(rubric, state_of("a"), state_of("b"))
    assert [one["metrics"], other["metrics"]] == [{"length": 1.0, "<lambda>": 1.0}, {"length": 1.0, "<lambda>": None}]
    assert (one["reward"], other["reward"], other["error"]) == (1.0, 1.0, None)


def test_a_rollout_alone_is_not_compared():
    with pytest.raises(UsageError, match="the reward function longest compares the rollouts of a group"):
        asyncio.run(Rubric([longest]).score_rollout(state_of("a")))


def test_advantages_are_above_the_mean_and_reach_the_turns_that_have_none():
    own = state_of("aaaa")
    own["trajectory"][0]["advantage"] = 9.0
    states = group_scoring_scored(Rubric([length]), state_of("aa"), own)
    assert values(states, "advantage") == [-1.0, 1.0]
    turns = [state["trajectory"][0] for state in states]
    assert turns == [{"reward": 2.0, "advantage": -1.0}, {"reward": 4.0, "advantage": 9.0}]


def test_a_marked_function_says_the_advantages_and_is_no_reward():
    @advantage
    def signs(rewards, states):
        assert len(states) == len(rewards)
        return [1 if reward == max(rewards) else -1 for reward in rewards]

    rubric = Rubric([length, signs])
    states = group_scoring_scored(rubric, state_of("a"), state_of("aaa"))
    assert (values(states, "reward"), values(states, "advantage")) == ([1.0, 3.0], [-1.0, 1.0])
    assert rubric.has_advantages
    assert not rubric.has_group_rewards


def test_a_marked_method_does_too_and_fails_the_group_when_it_fails():
    class Ranked(Rubric):
        @advantage
        def rank(self, rewards):
            return [1 / (reward - 1) for reward in rewards]

    assert values(group_scoring_scored(Ranked([length]), state_of("aa"), state_of("aaa")), "advantage") == [1.0, 0.5]
    states = group_scoring_scored(Ranked([length]), state_of("a"), state_of("aaa"))
    assert values(states, "reward") == [None, None]
    assert all("rank failed: ZeroDivisionError" in str(state["error"]) for state in states)


def test_a_rubric_with_a_way_of_its_own_to_score_a_rollout_is_asked_in_groups_too():
    class Own(Rubric):
        async def score_rollout(self, state):
            state["reward"], state["metrics"] = 0.5, {}

    assert values(group_scoring_scored(Own(), state_of("a"), state_of("b")), "advantage") == [0.0, 0.0]


def test_rewards_that_the_environment_gave_itself_have_advantages():
    one, other, unjudged = (state_of("a") for _ in range(3))
    one["reward"], other["reward"] = 1.0, 0.0
    group_scoring_scored(Rubric(), one, other, unjudged)
    assert (one["advantage"], other["advantage"], unjudged.get("advantage")) == (0.5, -0.5, None)
    asyncio.run(Rubric([longest]).score_group([]))


def test_the_rollouts_of_a_group_are_scored_side_by_side():
    met = asyncio.Barrier(2)

    async def waits_for_the_other():
        async with asyncio.timeout(10):
            await met.wait()
        return 1

    assert values(group_scoring_scored(Rubric([waits_for_the_other]), state_of("a"), state_of("b")), "reward") == [
        1.0,
        1.0,
    ]


def test_a_provider_that_fails_leaves_no_reward():
    def broken(state):
        raise KeyError("x")

    alone, together = Rubric([length, longest]), Rubric([length, longest])
    alone.add_score_object_provider(broken)
    together.add_group_score_object_provider(broken)
    for rubric in (alone, together):
        states = group_scoring_scored(rubric, state_of("a"), state_of("b"))
        assert values(states, "reward") == [None, None]
        assert all("KeyError" in str(state["error"]) for state in states)
