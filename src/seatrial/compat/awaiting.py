"""Functions that may or may not be asynchronous, called the same way; and limits that may or may not be there."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar, cast

from seatrial.errors import InfraError, InvalidModelResponseError

T = TypeVar("T")


async def maybe_await(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns, waited for if need be."""
    result = func(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


async def maybe_call_with_named_args(func: Callable[..., Any], **objects: Any) -> Any:
    """What a function returns that is given those of the objects that it names."""
    parameters = inspect.signature(func).parameters.values()
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return await maybe_await(func, **objects)
    named = {each.name for each in parameters}
    return await maybe_await(func, **{name: value for name, value in objects.items() if name in named})


async def maybe_semaphore(limit: int | None = None) -> AbstractAsyncContextManager[Any]:
    """A semaphore of so many, or nothing to wait for without a limit."""
    return asyncio.Semaphore(limit) if limit and limit > 0 else NullAsyncContext()


async def with_sem(sem: AbstractAsyncContextManager[Any], coro: Awaitable[T]) -> T:
    """The result of a coroutine that runs within a context, such as a semaphore."""
    try:
        async with sem:
            return await coro
    finally:
        if inspect.iscoroutine(coro):  # cancelled before its turn came
            coro.close()


def maybe_retry(
    func: Callable[..., Coroutine[Any, Any, T]],
    max_retries: int = 0,
    initial: float = 1.0,
    max_wait: float = 60.0,
    error_types: tuple[type[Exception], ...] = (InfraError, InvalidModelResponseError),
) -> Callable[..., Coroutine[Any, Any, T]]:
    """The same function, called again up to `max_retries` times while it raises such an error or returns a state, or
    states, with one; pauses double from `initial` to `max_wait` seconds. What it did last is what comes of it.
    """

    async def call_again(*args: Any, **kwargs: Any) -> T:
        for number in range(max_retries):
            try:
                result = await func(*args, **kwargs)
            except error_types:
                pass
            else:
                if not any(isinstance(error, error_types) for error in _errors_in(result)):
                    return result
            await asyncio.sleep(min(initial * 2**number, max_wait))
        return await func(*args, **kwargs)

    return call_again if max_retries > 0 else func


def _errors_in(result: object) -> list[object]:
    states = result if isinstance(result, list) else [result]
    return [state.get("error") for state in states if isinstance(state, dict)]


NullAsyncContext = cast("type[AbstractAsyncContextManager[None]]", nullcontext)
"""A context in which nothing is waited for."""
