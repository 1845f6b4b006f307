"""A cleanup that was started is finished, and work that an event ends has ended, whoever is cancelled meanwhile."""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from seatrial.concurrency import complete, finish, run_all, unless


class Cleanup:
    """A cleanup that waits until it may end, and then perhaps fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.done = False
        self._error = error

    async def run(self) -> None:
        self.started.set()
        await self.may_end.wait()
        self.done = True
        if self._error:
            raise self._error


async def finish_or_fail(cleanup: Cleanup) -> str:
    try:
        await finish(cleanup.run())
    except LookupError as error:
        return f"failed: {error}"
    return "finished"


async def cancel_meanwhile(cleanup: Cleanup, times: int) -> asyncio.Task[str]:
    """The task that waited for the cleanup, cancelled so often before the cleanup could end."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(finish_or_fail(cleanup))
        await cleanup.started.wait()
        for _ in range(times):
            waiting.cancel()
            await asyncio.sleep(0)
            assert not waiting.done()
        cleanup.may_end.set()
    return waiting


@pytest.mark.parametrize("times", [1, 2, 5])
def test_the_cleanup_ends_first_and_then_the_cancellation_goes_through(times):
    async def scenario() -> None:
        cleanup = Cleanup()
        waiting = await cancel_meanwhile(cleanup, times)
        assert cleanup.done
        assert waiting.cancelled()

    asyncio.run(scenario())


def test_without_a_cancellation_it_just_returns():
    async def scenario() -> None:
        cleanup = Cleanup()
        waiting = await cancel_meanwhile(cleanup, times=0)
        assert cleanup.done
        assert waiting.result() == "finished"

    asyncio.run(scenario())


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_failed_cleanup_is_heard_of_even_by_a_cancelled_caller(times):
    async def scenario() -> None:
        waiting = await cancel_meanwhile(Cleanup(LookupError("lost")), times)
        assert waiting.result() == "failed: lost"

    asyncio.run(scenario())


def test_a_cleanup_that_is_cancelled_itself_counts_as_cancelled():
    async def give_up() -> None:
        raise asyncio.CancelledError

    async def scenario() -> None:
        with pytest.raises(asyncio.CancelledError):
            await finish(give_up())

    asyncio.run(scenario())


def test_a_time_limit_around_it_waits_for_it():
    async def clean_up(limit: asyncio.Timeout) -> None:
        while not limit.expired():  # noqa: ASYNC110 - a time limit sets no event
            await asyncio.sleep(0)

    async def scenario() -> None:
        async with asyncio.timeout(0) as limit:
            await finish(clean_up(limit))

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())


class Work:
    """Work that ends when it may, and notes how."""

    def __init__(self, error: Exception | None = None) -> None:
        self.started = asyncio.Event()
        self.may_end = asyncio.Event()
        self.ended = "not yet"
        self._error = error

    async def run(self) -> str:
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it takes its time to clean up
            self.ended = "cancelled"
            if self._error:
                raise self._error from None
            raise
        self.ended = "done"
        if self._error:
            raise self._error
        return "result"


def test_unless_gives_what_the_work_gives():
    async def scenario() -> None:
        work, event = Work(), asyncio.Event()
        work.may_end.set()
        assert await unless(event, work.run()) == "result"
        assert not event.is_set()

    asyncio.run(scenario())


def test_unless_raises_what_the_work_raises():
    async def scenario() -> None:
        work = Work(LookupError("lost"))
        work.may_end.set()
        with pytest.raises(LookupError, match="lost"):
            await unless(asyncio.Event(), work.run())

    asyncio.run(scenario())


def test_an_event_ends_the_work_and_waits_for_its_end():
    async def scenario() -> None:
        work, event = Work(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(unless(event, work.run()))
            await work.started.wait()
            event.set()
        assert waiting.result() is None
        assert work.ended == "cancelled"

    asyncio.run(scenario())


def test_an_event_that_was_there_before_leaves_no_work_behind():
    async def scenario() -> None:
        work, event = Work(), asyncio.Event()
        event.set()
        assert await unless(event, work.run()) is None
        assert work.ended != "done"
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(scenario())


def test_work_that_was_done_counts_even_if_the_event_came_too():
    async def scenario() -> None:
        event = asyncio.Event()

        async def work() -> str:
            event.set()
            return "result"

        assert await unless(event, work()) == "result"

    asyncio.run(scenario())


def test_a_cancelled_caller_waits_for_the_end_of_the_work():
    async def scenario() -> None:
        work = Work()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(unless(asyncio.Event(), work.run()))
            await work.started.wait()
            waiting.cancel()
        assert waiting.cancelled()
        assert work.ended == "cancelled"

    asyncio.run(scenario())


def test_work_that_fails_while_it_is_ended_is_heard_of():
    async def scenario() -> None:
        work, event = Work(LookupError("could not clean up")), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_failure_of(unless(event, work.run())))
            await work.started.wait()
            event.set()
        assert waiting.result() == "could not clean up"

    asyncio.run(scenario())


async def _failure_of(waiting: Coroutine[Any, Any, object]) -> str:
    try:
        await waiting
    except LookupError as error:
        return str(error)
    return "none"


def test_interrupting_a_notebook_cancels_the_work_and_waits_for_its_end():
    work = Work()

    async def interrupted() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        await work.run()

    async def cell() -> None:  # a notebook's loop leaves the signal to Python
        complete(interrupted)

    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(cell())
    finally:
        loop.close()
    assert work.ended == "cancelled"


def test_so_many_items_are_worked_on_at_once_and_each_result_is_told():
    told: dict[int, int] = {}
    running, most = set(), []

    async def work(number: int) -> int:
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(number)
        return number * number

    asyncio.run(run_all(range(10), work, 3, told.__setitem__))
    assert max(most) == 3
    assert told == {number: number * number for number in range(10)}


def test_items_are_taken_when_there_is_a_slot_for_them():
    taken: list[int] = []
    done: list[int] = []

    def items():
        for number in range(6):
            taken.append(len(done))
            yield number

    async def work(number: int) -> None:
        await asyncio.sleep(0)

    asyncio.run(run_all(items(), work, 2, lambda number, _: done.append(number)))
    assert taken == [0, 0, 1, 2, 3, 4]
    assert sorted(done) == list(range(6))


@pytest.mark.parametrize("told", [False, True], ids=["work", "its result"])
def test_the_first_error_ends_all_work_and_comes_out_as_it_was(told):
    began, torn_down = [], []

    def fail(number: int, _: object = None) -> None:
        if number == 1:
            raise LookupError("one")

    async def work(number: int) -> None:
        began.append(number)
        if not told:
            fail(number)
        if number != 1:
            try:
                await asyncio.Event().wait()
            finally:
                torn_down.append(number)

    with pytest.raises(LookupError, match="one"):
        asyncio.run(run_all(iter(range(9)), work, 3, fail if told else None))
    assert began == [0, 1, 2]
    assert sorted(torn_down) == [0, 2]


def test_nothing_is_begun_without_room_which_whoever_takes_a_result_gives_back():
    began = []

    async def work(number: int) -> None:
        began.append(number)

    async def scenario() -> None:
        room = asyncio.Semaphore(2)
        running = asyncio.ensure_future(run_all(range(3), work, 9, room=room))
        for _ in range(9):
            await asyncio.sleep(0)
        assert began == [0, 1]
        room.release()
        room.release()
        await running
        assert began == [0, 1, 2]

    asyncio.run(scenario())
