"""Patience: breaks off waits that take too long, with one timer for all of them."""

import asyncio


class Patience:
    """For waits that may all take equally long. A timer for each would cost more than the rest of a short wait."""

    def __init__(self, limit_sec: float) -> None:
        self._limit_sec = limit_sec
        self._deadlines: dict[asyncio.Timeout, float] = {}  # the earliest comes first
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, wait: asyncio.Timeout) -> None:
        """Let a wait that has just been entered time out when the limit is over."""
        loop = asyncio.get_running_loop()
        self._deadlines[wait] = loop.time() + self._limit_sec
        if self._timer is None:
            self._timer = loop.call_later(self._limit_sec, self._check, loop)

    def end(self, wait: asyncio.Timeout) -> None:
        """It is over, one way or another."""
        del self._deadlines[wait]

    def close(self) -> None:
        """Nothing is waited for any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        self._timer = None
        for wait, deadline in self._deadlines.items():
            if deadline > now:
                self._timer = loop.call_at(deadline, self._check, loop)
                break
            if not wait.expired():
                wait.reschedule(now)
