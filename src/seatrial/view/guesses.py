"""Passwords that do not fit: whoever has guessed some has to wait, longer each time."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

_FREE = 5
_LONGEST = 300.0
_MOST_GUESSERS = 1_000


@dataclass(eq=False)
class Guesses:
    """The wrong guesses of each address, and of all together: someone with many addresses waits too."""

    clock: Callable[[], float] = time.monotonic
    _wrong: OrderedDict[str, tuple[int, float]] = field(default_factory=OrderedDict)
    _all: tuple[int, float] = (0, 0.0)

    def wait(self, address: str) -> float:
        """For how many seconds an address may not guess."""
        until = max(self._wrong.get(address, (0, 0.0))[1], self._all[1])
        return max(0.0, until - self.clock())

    def wrong(self, address: str) -> None:
        """A guess of an address was wrong."""
        self._wrong[address] = self._after(self._wrong.pop(address, (0, 0.0)), _FREE)
        self._all = self._after(self._all, _FREE * _FREE)
        if len(self._wrong) > _MOST_GUESSERS:
            self._wrong.popitem(last=False)

    def right(self, address: str) -> None:
        """Somebody there knows the password; what was wrong before were slips."""
        self._wrong.pop(address, None)
        self._all = (0, 0.0)

    def _after(self, before: tuple[int, float], free: int) -> tuple[int, float]:
        count = before[0] + 1
        pause = 0.0 if count < free else min(_LONGEST, 2.0 ** min(20, count - free))
        return count, self.clock() + pause
