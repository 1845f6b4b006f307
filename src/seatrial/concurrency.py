"""Structured concurrency where asyncio alone falls short."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar, cast

T = TypeVar("T")

_LOOK_UP_SEC = 1.0
"""Python does not see a signal that comes in the moment before it begins to wait for a lock, until the wait ends."""


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What some work gives; None when an event comes first, by which the work is cancelled.

    Work that fails while it is being cancelled is heard of: raises what it raised.
    """
    task, alarm = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        done = task.done()
        for each in (task, alarm):
            each.cancel()
        await finish(_ended(task, alarm))
    failed = not task.cancelled() and task.exception() is not None
    return task.result() if done or failed else None


async def _ended(*tasks: "asyncio.Future[Any]") -> None:
    await asyncio.wait(tasks)


async def finish(cleanup: Coroutine[Any, Any, T]) -> T:
    """Run a cleanup to its end however often the caller is cancelled meanwhile; then let the cancellation through."""
    task = asyncio.ensure_future(cleanup)
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted and not task.cancelled() and task.exception() is None:
        raise interrupted
    return task.result()


async def side_by_side(work: Callable[[], Coroutine[Any, Any, None]], workers: int) -> None:
    """Run several workers; the first error of one ends them all and comes out as it was."""
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first error in a group, however deep."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def complete(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, in a thread of its own where an event loop is running already.

    Whoever interrupts the wait, as a notebook does, cancels it; what it holds is cleaned up before that comes out.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work())
    told: Future[bool] = Future()
    begun: Future[Callable[[], object]] = Future()

    async def led() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101 - this runs in one
        begun.set_result(lambda: loop.call_soon_threadsafe(task.cancel))
        return await work()

    def run() -> T | None:
        return asyncio.run(led()) if told.result() else None

    with ThreadPoolExecutor(1, "seatrial") as thread:
        try:
            running = thread.submit(run)
            told.set_result(True)  # not before: an executor that is interrupted as it starts a thread forgets it
            while not wait((running,), _LOOK_UP_SEC).done:
                pass
            return cast("T", running.result())
        except BaseException:
            if not told.done():
                told.set_result(False)
            elif not running.done():
                with suppress(RuntimeError):  # it has just ended
                    begun.result()()
            raise
