"""SandboxClient of prime_sandboxes: the client whose methods wait, for code that awaits nothing."""

import asyncio
import atexit
import functools
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Self

from seatrial.compat.prime_sandboxes import AsyncSandboxClient
from seatrial.errors import SandboxError


class SandboxClient:
    """Each method of AsyncSandboxClient, waited for. All clients of a process know the same sandboxes.

    It may be used in any thread, also in one whose event loop is running, which stands still meanwhile.
    """

    def __init__(self, *_args: Any, **_options: Any) -> None:
        self._client = _background().client

    def __getattr__(self, name: str) -> Any:
        """A method by its name. Raises AttributeError where AsyncSandboxClient has none."""
        found = getattr(self._client, name)
        if not inspect.iscoroutinefunction(found):
            return found

        @functools.wraps(found)
        def wait(*args: Any, **kwargs: Any) -> Any:
            return _background().wait(found(*args, **kwargs))

        return wait

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _Background:
    """An event loop in a thread of its own, until the program ends; what was made on it is closed then."""

    def __init__(self) -> None:
        self.client = AsyncSandboxClient()
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="seatrial-sandboxes", daemon=True)
        self._thread.start()
        _when_ending(self._end)

    def wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._loop.is_closed():
            work.close()
            raise SandboxError("the program is ending, and every sandbox of SandboxClient has been closed already")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # which cancels what is left, and waits for it
            runner.run(self._ended.wait())

    def _end(self) -> None:
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()


def _when_ending(call: Callable[[], None]) -> None:
    """Have something called when the program ends, while threads can still be started: `atexit` comes too late."""
    register = getattr(threading, "_register_atexit", atexit.register)
    register(call)


_first_one = threading.Lock()


def _background() -> _Background:
    with _first_one:
        return _of_process(os.getpid())


@functools.cache
def _of_process(_: int) -> _Background:  # a fork has none of the threads
    return _Background()
