"""Hooks: how methods of an environment and reward functions that others wrote are marked, found and called.

What they raise becomes a HookError. `stop`, `cleanup`, `teardown` and `advantage` mark methods of an environment or a
rubric, bare or with a priority, `@stop(priority=10)`; the highest comes first, and equals are sorted by name, as in
verifiers. A method that overrides a marked one is marked like it; `None` in its place takes it away.
"""

import asyncio
import contextvars
import inspect
import signal
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from types import CoroutineType, TracebackType
from typing import Any, Literal, Self, TypeVar, overload
from weakref import WeakKeyDictionary

from seatrial.errors import HookError, SeatrialError

Mark = Literal["stop", "cleanup", "teardown", "advantage"]
Method = Callable[..., Any]
M = TypeVar("M", bound=Method)

_MARKED: WeakKeyDictionary[type, dict[Mark, tuple[str, ...]]] = WeakKeyDictionary()
"""What was found once, since it is looked for in each turn of each rollout."""


# Calling.


class blaming:  # noqa: N801 - it is used like a function
    """Whatever foreign is raised in the block is the doing of `name`. Our own errors and a cancellation pass.

    Every call of a hook goes through it, which is why it is not a generator; of several in a row, each may set `name`.
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
    code = getattr(getattr(handler, "func", handler), "__code__", None)  # that of asyncio is a partial one
    return code is not None and any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


async def call_hook(hook: Callable[..., Any], /, **offered: Any) -> Any:
    """What a hook gives. It gets what it names of what is offered: earlier releases of verifiers passed more."""
    parameters = inspect.signature(hook).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return await maybe_await(
        hook(**{name: value for name, value in offered.items() if takes_all or name in parameters})
    )


async def call_each(handlers: Mapping[str, Method], *arguments: Any) -> list[Exception]:
    """Call all handlers, each even if another fails. Returns what they raised."""
    errors: list[Exception] = []
    for name, handler in handlers.items():
        try:
            with blaming(name):
                await maybe_await(handler(*arguments))
        except Exception as error:  # noqa: BLE001 - the caller has it, and the next handler has its turn
            errors.append(error)
    return errors


def maybe_await(value: Any) -> Awaitable[Any]:
    """A value that hooks gave, to be awaited whether or not it has to be."""
    # Nearly always a coroutine, which is quicker to tell than what else can be awaited.
    return value if type(value) is CoroutineType or inspect.isawaitable(value) else _awaitable(value)


async def _awaitable(value: Any) -> Any:
    return value


# Marking and finding.


@overload
def stop(method: M, /) -> M: ...
@overload
def stop(*, priority: int = 0) -> Callable[[M], M]: ...
def stop(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark `method(self, state) -> bool` as a condition that ends a rollout."""
    return _mark("stop", method, priority)


@overload
def cleanup(method: M, /) -> M: ...
@overload
def cleanup(*, priority: int = 0) -> Callable[[M], M]: ...
def cleanup(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark `method(self, state)` to run at the end of each rollout, however it ends."""
    return _mark("cleanup", method, priority)


@overload
def teardown(method: M, /) -> M: ...
@overload
def teardown(*, priority: int = 0) -> Callable[[M], M]: ...
def teardown(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark `method(self)` to run when the environment is no longer used."""
    return _mark("teardown", method, priority)


@overload
def advantage(method: M, /) -> M: ...
@overload
def advantage(*, priority: int = 0) -> Callable[[M], M]: ...
def advantage(method: Method | None = None, /, *, priority: int = 0) -> Any:
    """Mark a function or a method of a rubric that says the advantage of each rollout of a group."""
    return _mark("advantage", method, priority)


def marked_methods(owner: object, mark: Mark) -> dict[str, Method]:
    """The bound methods with a mark by their names, in the order in which they are to run."""
    known = _MARKED.setdefault(type(owner), {})
    if mark not in known:
        known[mark] = _marked_names(type(owner), mark)
    return {name: method for name in known[mark] if callable(method := getattr(owner, name))}


def priority_of(method: object, mark: Mark) -> int | None:
    """The priority of a mark; None without it."""
    priority = getattr(method, _attribute(mark), None)
    return priority if isinstance(priority, int) else None


def _marked_names(owner: type, mark: Mark) -> tuple[str, ...]:
    priorities: dict[str, int] = {}
    for kind in reversed(owner.__mro__):
        for name, member in vars(kind).items():
            priority = priority_of(member, mark)
            if priority is not None:
                priorities[name] = priority
    return tuple(sorted(priorities, key=lambda name: (-priorities[name], name)))


def _mark(mark: Mark, method: Method | None, priority: int) -> Any:
    def put(marked: Method) -> Method:
        setattr(marked, _attribute(mark), priority)
        return marked

    return put if method is None else put(method)


def _attribute(mark: Mark) -> str:
    return f"_seatrial_{mark}"


async def in_daemon_thread(function: Callable[[], Any]) -> Any:
    """What a plain function returns or raises, run in a daemon thread of its own.

    A pool has only so many threads, and Python waits for all of them when it ends; nothing waits for this one. When the
    caller is cancelled, it runs on and its result is dropped. What would end the whole program is a RuntimeError:
    Ctrl-C never comes to a thread, so that it is not the user's.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def tell(result: Any, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((result, error))

    def work() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:  # noqa: BLE001 - raised again where it is waited for
            error = raised
        with suppress(RuntimeError):  # the event loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="seatrial-tool", daemon=True).start()
    result, error = await outcome
    if error is not None:
        if isinstance(error, Exception | SystemExit):
            raise error
        raise RuntimeError(f"{type(error).__name__}: {error}".removesuffix(": ")) from error
    return result
