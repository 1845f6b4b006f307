"""Structured concurrency where asyncio alone falls short."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


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
