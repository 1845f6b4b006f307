"""Waits that take too long: broken off when their time is over, each by itself, and no others."""

import asyncio

import pytest

from seatrial.gateway.upstreams.wait_limit import WaitLimit


async def waited(limit: WaitLimit, until: asyncio.Event) -> str:
    try:
        with limit:
            await until.wait()
    except TimeoutError:
        return "timed out"
    return "came"


def timers() -> int:
    loop = asyncio.get_running_loop()
    return sum(not timer.cancelled() for timer in loop._scheduled)  # type: ignore[attr-defined]


def test_what_does_not_come_is_broken_off_and_what_comes_is_not():
    async def scenario() -> list[str]:
        limit, now, never = WaitLimit(0.01), asyncio.Event(), asyncio.Event()
        now.set()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(waited(limit, event)) for event in (never, now, never, now)]
        # All are over, and the timer with them; the next wait has one again.
        return [*(task.result() for task in tasks), await waited(limit, never)]

    assert asyncio.run(scenario()) == ["timed out", "came", "timed out", "came", "timed out"]


def test_a_wait_that_began_later_ends_later():
    async def scenario() -> None:
        limit, never, first_is_over = WaitLimit(0.05), asyncio.Event(), asyncio.Event()

        async def first() -> None:
            await waited(limit, never)
            first_is_over.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(first())
            await asyncio.sleep(0.02)
            second = group.create_task(waited(limit, never))
            await first_is_over.wait()
            assert not second.done()
        assert second.result() == "timed out"

    asyncio.run(scenario())


def test_one_timer_serves_all_and_none_is_left():
    async def scenario() -> None:
        limit, come = WaitLimit(600), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(waited(limit, come))
            await asyncio.sleep(0)
            assert timers() == 1
            come.set()
        limit.close()
        assert timers() == 0

    asyncio.run(scenario())


def test_a_wait_that_is_cancelled_as_its_time_is_over_stays_cancelled():
    async def scenario() -> None:
        task = asyncio.create_task(waited(WaitLimit(0), asyncio.Event()))
        await asyncio.sleep(0)  # it begins to wait
        await asyncio.sleep(0)  # its time is over, and will be noticed before it runs again
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_a_cancelled_wait_stays_cancelled():
    async def scenario() -> None:
        task = asyncio.create_task(waited(WaitLimit(600), asyncio.Event()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
