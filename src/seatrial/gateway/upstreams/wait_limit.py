"""WaitLimit: breaks off waits that take too long, with one timer for all of them."""

import asyncio
from time import monotonic
from types import TracebackType
from typing import Any

Waiting = asyncio.Task[Any] | None


class WaitLimit:
    """A block that raises TimeoutError when it takes too long. Many tasks may be inside, each of them once.

    What `asyncio.timeout` does, at a third of its price: a task is cancelled, and takes that back when it has noticed.
    A timer for each would cost more than the rest of a short wait.
    """

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._waits: dict[Waiting, tuple[float, int]] = {}  # until when, and how often cancelled before; in this order
        self._broken_off: set[Waiting] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - only coroutines wait
        self._waits[task] = (monotonic() + self._limit_sec, task.cancelling())
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limit_sec, self._check)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        _, cancelled_before = self._waits.pop(task)
        if task in self._broken_off:
            self._broken_off.remove(task)
            if task is not None and task.uncancel() <= cancelled_before and kind is asyncio.CancelledError:
                raise TimeoutError from error

    def close(self) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = monotonic()
        self._timer = None
        for task, (deadline, _) in self._waits.items():
            if deadline > now:
                self._timer = asyncio.get_running_loop().call_later(deadline - now, self._check)
                break
            if task is not None and task not in self._broken_off:
                self._broken_off.add(task)
                task.cancel()
