"""KeptOpen: something opened for the length of a block, kept open without the block, and closed with the event loop."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from seatrial.concurrency import finish

T = TypeVar("T")


class KeptOpen(Generic[T]):
    """Keeps a context manager open from `open` to `close`. A loop that ends first closes it too."""

    def __init__(self, opening: AbstractAsyncContextManager[T]) -> None:
        self._opening = opening
        self._closing = asyncio.Event()
        self._ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> T:
        """What the context manager gives. Raises what it raises."""
        # A task of its own, which the end of the event loop cancels: then it closes what it holds.
        self._task = asyncio.create_task(self._hold())
        try:
            return await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close it. Raises what the context manager raises then."""
        self._closing.set()
        if self._task is not None:
            await finish(_end(self._task, self._ready))

    async def _hold(self) -> None:
        try:
            async with self._opening as opened:
                self._ready.set_result(opened)
                await self._closing.wait()
        except Exception as error:
            if self._ready.done():
                raise
            self._ready.set_exception(error)


async def _end(task: "asyncio.Task[None]", ready: "asyncio.Future[T]") -> None:
    if not ready.done():
        task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and task.exception() is not None:
        task.result()
