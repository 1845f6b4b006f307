"""Structured concurrency where asyncio alone falls short: cleanups that end, work on many items, racing an event."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

T = TypeVar("T")
R = TypeVar("R")

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


async def finish(cleanup: "Coroutine[Any, Any, T] | asyncio.Future[T]") -> T:
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


async def run_all(
    items: Iterable[T],
    work: Callable[[T], Coroutine[Any, Any, R]],
    at_once: int,
    done: Callable[[T, R], object] | None = None,
    room: asyncio.Semaphore | None = None,
) -> None:
    """Work on all items, so many at once; the next one is taken when there is a slot for it.

    `done` is called with each result, one after the other. The first error, of work or of `done`, ends all of it and
    comes out as it was. With `room`, each item takes up a place of it, which whoever uses the result gives back.
    """
    due, running, over = iter(items), 0, False
    ended: asyncio.Queue[tuple[T, asyncio.Task[R]]] = asyncio.Queue()
    try:
        async with asyncio.TaskGroup() as group:
            while running or not over:
                if over or running == at_once:
                    item, task = await ended.get()
                    running -= 1
                    if done is not None and not task.cancelled():
                        done(item, task.result())
                    continue
                if room is not None:
                    await room.acquire()
                try:
                    item = next(due)
                except StopIteration:
                    over = True
                    continue
                running += 1
                group.create_task(work(item)).add_done_callback(partial(_put, ended, item))
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


def _put(ended: "asyncio.Queue[tuple[T, asyncio.Task[R]]]", item: T, task: "asyncio.Task[R]") -> None:
    ended.put_nowait((item, task))


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
