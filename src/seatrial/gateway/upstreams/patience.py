"""Patience: breaks off waits that take too long, with one timer for all of them."""

import asyncio
from time import monotonic
from types import TracebackType


class Patience:
    """For waits that may all take equally long. A timer for each would cost more than the rest of a short wait."""

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._waits: dict[Wait, float] = {}  # when each ends; the earliest comes first
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, wait: "Wait") -> None:
        """Break a wait off when the limit is over."""
        self._waits[wait] = monotonic() + self._limit_sec
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._limit_sec, self._check)

    def end(self, wait: "Wait") -> None:
        """It is over, one way or another."""
        del self._waits[wait]

    def close(self) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        now = monotonic()
        self._timer = None
        for wait, deadline in self._waits.items():
            if deadline > now:
                self._timer = asyncio.get_running_loop().call_later(deadline - now, self._check)
                break
            wait.break_off()


class Wait:
    """A block that raises TimeoutError when it takes longer than a Patience has.

    What `asyncio.timeout` does, at a third of its price: a task is cancelled, and takes that back when it has noticed.
    """

    __slots__ = ("_cancelled_before", "_is_broken_off", "_patience", "_task")

    def __init__(self, patience: Patience) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - only coroutines wait
        self._patience = patience
        self._task = task
        self._is_broken_off = False

    def __enter__(self) -> None:
        self._cancelled_before = self._task.cancelling()
        self._patience.begin(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patience.end(self)
        if self._is_broken_off and self._task.uncancel() <= self._cancelled_before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def break_off(self) -> None:
        """Cancel the task that waits, once."""
        if not self._is_broken_off:
            self._is_broken_off = True
            self._task.cancel()
