"""A cleanup that was started is finished, however often whoever waits for it is cancelled."""

import asyncio
from collections.abc import Callable

import pytest

from seatrial.concurrency import finish


class Cleanup:
    """A cleanup that waits until it is let go on, and may then fail."""

    def __init__(self, error: BaseException | None = None) -> None:
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


async def cancelled_times(cleanup: Cleanup, times: int) -> asyncio.Task[None]:
    """A task that finishes the cleanup, after being cancelled so often meanwhile."""
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(swallow(lambda: finish(cleanup.run())))
        await cleanup.started.wait()
        for _ in range(times):
            waiting.cancel()
            await asyncio.sleep(0)
            assert not waiting.done()
        cleanup.may_end.set()
    return waiting


async def swallow(wait: Callable[[], "asyncio.Future[None]"]) -> None:
    await wait()
