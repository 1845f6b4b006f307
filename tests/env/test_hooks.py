"""Whose doing an error is: that of the code that raised it, or of a user who pressed Ctrl-C."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading

import pytest

import seatrial as vf
from seatrial.env.hooks import blaming, cleanup, in_daemon_thread, marked_methods, stop, teardown
from tests.env.games import counting


def interrupting(do):
    """An environment whose first reward function does something; the rollouts that were scored, by their answers."""
    seen = []

    async def judge(answer):
        seen.append(answer)
        if answer == "0":
            await do()
        return 1.0

    rows = [{"prompt": "q", "answer": str(number)} for number in range(3)]
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric([judge])), seen


async def raises():
    raise KeyboardInterrupt


async def is_pressed():
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()  # forever, unless it is seen to


def test_a_keyboard_interrupt_of_code_ends_only_its_rollout():
    env, _ = interrupting(raises)
    outputs = env.evaluate_sync(counting, "m", max_concurrent=1)["outputs"]
    assert [output["reward"] for output in outputs] == [None, 1.0, 1.0]
    assert outputs[0]["error"]["message"] == "the reward function judge failed: KeyboardInterrupt: "


def test_ctrl_c_ends_everything():
    env, seen = interrupting(is_pressed)
    with pytest.raises(KeyboardInterrupt):
        env.evaluate_sync(counting, "m", max_concurrent=1)
    assert seen == ["0"]


def test_where_python_itself_raises_it_for_ctrl_c_it_is_the_user_s():
    async def blamed():
        with pytest.raises(KeyboardInterrupt), blaming("a hook"):
            raise KeyboardInterrupt

    loop = asyncio.new_event_loop()  # unlike asyncio.run, it leaves SIGINT as it is
    try:
        loop.run_until_complete(blamed())
    finally:
        loop.close()


def test_ctrl_c_pressed_once_more_is_the_user_s_too():
    raised = []

    async def hook():  # which lets nobody else have the word
        try:
            with blaming("a hook"):
                os.kill(os.getpid(), signal.SIGINT)
                os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt as error:
            raised.append(type(error))

    async def waiting():
        async with asyncio.TaskGroup() as group:  # which hears of it when the hook has ended
            group.create_task(hook())

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(waiting())
    assert raised == [KeyboardInterrupt]


class Base:
    @stop
    def first(self):
        return "first"

    @stop(priority=100)
    def urgent(self):
        return "urgent"

    @cleanup
    def sweep(self):
        return "sweep"

    def unmarked(self):
        return "unmarked"


class Child(Base):
    @stop
    def second(self):
        return "second"

    @stop(priority=-1)
    def last(self):
        return "last"

    def first(self):
        return "first of the child"

    @teardown(priority=1)
    @cleanup(priority=1)
    def both(self):
        return "both"


def names(owner, mark):
    return list(marked_methods(owner, mark))


def test_the_highest_priority_comes_first_and_equals_by_name():
    assert names(Child(), "stop") == ["urgent", "first", "second", "last"]
    assert names(Child(), "cleanup") == ["both", "sweep"]
    assert names(Child(), "teardown") == ["both"]


def test_a_condition_that_notes_something_is_asked_before_those_of_the_base_as_its_author_named_it():
    class Game(Child):
        @stop
        def check_won(self):
            return "won"

    assert names(Game(), "stop") == ["urgent", "check_won", "first", "second", "last"]


def test_a_method_that_overrides_a_marked_one_is_marked_like_it():
    assert marked_methods(Child(), "stop")["first"]() == "first of the child"


def test_none_in_its_place_takes_a_condition_away():
    class Grandchild(Child):
        urgent = None  # type: ignore[assignment]

    assert names(Grandchild(), "stop") == ["first", "second", "last"]


def test_marks_leave_methods_as_they_are():
    assert Child().both() == "both"
    assert names(Base(), "stop") == ["urgent", "first"]


NAME = contextvars.ContextVar("NAME", default="nobody")


def test_it_runs_elsewhere_with_the_caller_s_context():
    async def run():
        NAME.set("somebody")
        return await in_daemon_thread(lambda: (NAME.get(), threading.current_thread() is threading.main_thread()))

    assert asyncio.run(run()) == ("somebody", False)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_what_it_raises_comes_out(error):
    def fail():
        raise error

    async def run():
        with pytest.raises(type(error)):
            await in_daemon_thread(fail)

    asyncio.run(run())


def test_many_that_wait_do_not_wait_for_each_other():
    barrier = threading.Barrier(60, timeout=30)  # more than a pool has threads

    async def run():
        await asyncio.gather(*(in_daemon_thread(barrier.wait) for _ in range(60)))

    asyncio.run(run())


def test_a_program_ends_although_one_hangs():
    program = """
import asyncio, threading
from seatrial.env.hooks import in_daemon_thread

async def run():
    try:
        async with asyncio.timeout(0.01):
            await in_daemon_thread(threading.Event().wait)
    except TimeoutError:
        print("over")

asyncio.run(run())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "over\n"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError("x")])
def test_what_would_end_everybody_ends_only_the_call(error):
    def fail():
        raise error

    async def run():
        with pytest.raises(RuntimeError, match=type(error).__name__):
            await in_daemon_thread(fail)

    asyncio.run(run())
