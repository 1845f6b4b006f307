"""How reward functions are called: in a thread or on the loop, and with which arguments."""

import asyncio
import functools
import gc
import threading
import weakref

import pytest

from seatrial.env.rubric_calls import FIRST_PROOFS, MOST_THREADS, QUICK_SEC, SLOW_SEC, Pace, RewardCall, new_name
from seatrial.errors import RewardError, UsageError


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
        monkeypatch.setattr("seatrial.env.rubric_calls.time.perf_counter", lambda: next(clock) * seconds)
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
