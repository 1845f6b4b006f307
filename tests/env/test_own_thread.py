"""Threads of their own: what functions return and raise comes out, and nobody waits for those that hang."""

import asyncio
import contextvars
import subprocess
import sys
import threading

import pytest

from seatrial.env.own_thread import in_own_thread

NAME = contextvars.ContextVar("NAME", default="nobody")


def test_it_runs_elsewhere_with_the_caller_s_context():
    async def run():
        NAME.set("somebody")
        return await in_own_thread(lambda: (NAME.get(), threading.current_thread() is threading.main_thread()))

    assert asyncio.run(run()) == ("somebody", False)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)])
def test_what_it_raises_comes_out(error):
    def fail():
        raise error

    async def run():
        with pytest.raises(type(error)):
            await in_own_thread(fail)

    asyncio.run(run())


def test_many_that_wait_do_not_wait_for_each_other():
    barrier = threading.Barrier(60, timeout=30)  # more than a pool has threads

    async def run():
        await asyncio.gather(*(in_own_thread(barrier.wait) for _ in range(60)))

    asyncio.run(run())


def test_a_program_ends_although_one_hangs():
    program = """
import asyncio, threading
from seatrial.env.own_thread import in_own_thread

async def run():
    try:
        async with asyncio.timeout(0.01):
            await in_own_thread(threading.Event().wait)
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
            await in_own_thread(fail)

    asyncio.run(run())
