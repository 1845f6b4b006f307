"""Whether this very process was stopped for a while: by Ctrl-Z, a batch system, or a debugger.

Clocks run on meanwhile, and agents with them or without. So a time-out that ends afterwards says nothing about anybody,
nor does what nobody was there to answer. Waiting for a processor is not being stopped: the kernel tells how long that
was, and an agent that keeps all processors busy gains nothing by it.
"""

from collections.abc import Callable, Mapping
from time import monotonic, process_time

from seatrial.sandbox.control_group import read
from seatrial.sandbox.host.shortage import Resource, Shortage

_LEAST_SEC = 5.0


def waited_sec() -> float:
    """How long this thread has waited for a processor so far; 0 where the kernel does not tell."""
    try:
        return int(read("/proc/thread-self/schedstat").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Pauses:
    """Time that passed without us, between one look and the next. Looks come several times a second."""

    place = "this process"

    def __init__(
        self,
        clock: Callable[[], float] = monotonic,
        worked: Callable[[], float] = process_time,
        waited: Callable[[], float] = waited_sec,
    ) -> None:
        self._clock, self._worked, self._waited = clock, worked, waited
        self._last = self._now()

    def read(self) -> Shortage | None:
        """Whether so much time has passed since the last look that we cannot have been running."""
        before, self._last = self._last, self._now()
        passed = self._last[0] - before[0]
        if passed < _LEAST_SEC:
            return None
        lost = passed - (self._last[1] - before[1]) - (self._last[2] - before[2])
        if lost < _LEAST_SEC:
            return None
        message = f"this process was stopped for {lost:.0f} s (Ctrl-Z, SIGSTOP or a debugger)"
        return Shortage("time", self.place, message, 0, passed=True)

    def left(self) -> Mapping[Resource, int]:
        """Nobody knows."""
        return {}

    def close(self) -> None:
        """Nothing is held open."""

    def _now(self) -> tuple[float, float, float]:
        return self._clock(), self._worked(), self._waited()
