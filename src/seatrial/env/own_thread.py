"""Running a plain function in a thread of its own, so that neither one that hangs nor many of them hold up the rest.

A pool has only so many threads, and Python waits for all of them when it ends. Nobody waits for these.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any


async def in_own_thread(function: Callable[[], Any]) -> Any:
    """What a function returns or raises. When the caller is cancelled, the thread runs on and nobody listens to it.

    What would end the whole program is a RuntimeError: Ctrl-C never comes to a thread, so that it is not the user's.
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
        raise harmless(error)
    return result


def harmless(error: BaseException) -> BaseException:
    """What a function raised in a thread: the same, unless it would end more than whoever called the function."""
    if isinstance(error, Exception | SystemExit):
        return error
    made = RuntimeError(f"{type(error).__name__}: {error}".removesuffix(": "))
    made.__cause__ = error
    return made
