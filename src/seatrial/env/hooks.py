"""Calling what others wrote: methods of an environment, reward functions. What they raise becomes a HookError."""

import asyncio
import inspect
import signal
import threading
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import CoroutineType, TracebackType
from typing import Any, Self

from seatrial.errors import HookError, SeatrialError


class blaming:  # noqa: N801 - it is used like a function
    """Whatever foreign is raised in the block is the doing of `name`. Our own errors and a cancellation pass.

    Every call of a hook goes through it, which is why it is no generator; of several in a row, each may set `name`.
    """

    __slots__ = ("_kind", "name")

    def __init__(self, name: str, kind: type[HookError] = HookError) -> None:
        self.name = name
        self._kind = kind

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, SeatrialError):
            return
        if is_of_hook(error):
            raise self._kind(f"{self.name} failed: {type(error).__name__}: {error}") from error
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and not task.cancelling():
                raise self._kind(f"{self.name} failed: something it waited for was cancelled") from error


@asynccontextmanager
async def within(minutes: float | None, late: str) -> AsyncIterator[None]:
    """Raise HookError with those words when the block takes longer."""
    limit = asyncio.timeout(None if minutes is None else 60 * minutes)
    try:
        async with limit:
            yield
    except TimeoutError as error:
        if limit.expired():
            raise HookError(late) from error
        raise


def is_of_hook(error: BaseException | None) -> bool:
    """Whether an error is the doing of the code that raised it: also one that is meant to end the program.

    Ctrl-C raises KeyboardInterrupt in the main thread only, out of what handles the signal there. Python's own handler
    leaves no trace of itself; that of asyncio, which cancels first and raises when it is pressed once more, does.
    """
    if not isinstance(error, KeyboardInterrupt):
        return isinstance(error, Exception | SystemExit)
    if threading.current_thread() is not threading.main_thread():
        return True
    handler = signal.getsignal(signal.SIGINT)
    return handler is not signal.default_int_handler and not _comes_out_of(handler, error)


def _comes_out_of(handler: object, error: BaseException) -> bool:
    """Whether an error was raised in a handler of signals, or further in."""
    code = getattr(getattr(handler, "func", handler), "__code__", None)  # that of asyncio is a partial one
    return code is not None and any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


async def call_hook(hook: Callable[..., Any], **offered: Any) -> Any:
    """What a hook gives. It gets what it names of what is offered: earlier releases of verifiers passed more."""
    parameters = inspect.signature(hook).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return await settled(hook(**{name: value for name, value in offered.items() if takes_all or name in parameters}))


async def settled(value: Any) -> Any:
    """A value, or what it turns out to be."""
    if type(value) is CoroutineType:  # nearly always, and quicker to tell than what else can be awaited
        return await value
    return await value if inspect.isawaitable(value) else value
