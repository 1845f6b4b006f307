"""A cleanup that was started is finished, however often whoever waits for it is cancelled."""

import asyncio

import pytest

from seatrial.concurrency import finish


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
