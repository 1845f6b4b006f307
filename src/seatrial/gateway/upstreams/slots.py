"""Slots: how many calls a provider gets at a time, shared out among trials so that none takes all of them.

One that has many calls under way leaves some slots free, also while it is alone: what it holds by then could not be
taken back when another comes. Of those who wait, the one with the fewest goes first.
"""

import asyncio
from collections import deque

_GREED = 7  # a trial may have so many slots for each that it leaves free


class Slots:
    """So many slots. Trials are told apart by a number; whoever has none (0) takes what is free."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._taken: dict[int, int] = {}
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}

    async def acquire(self, trial: int) -> None:
        """Take a slot, as soon as there is one for this trial."""
        taken = self._taken.get(trial, 0)
        if self._may_have(trial, taken) and trial not in self._waiting:
            self._free -= 1
            self._taken[trial] = taken + 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(trial, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(trial)
            else:
                self._forget(trial, turn)
            raise

    def release(self, trial: int) -> None:
        """Give a slot back."""
        self._free += 1
        left = self._taken[trial] - 1
        if left:
            self._taken[trial] = left
        else:
            del self._taken[trial]
        if self._waiting:
            self._serve()

    def _serve(self) -> None:
        while self._waiting:
            trial = min(self._waiting, key=lambda each: self._taken.get(each, 0))
            taken = self._taken.get(trial, 0)
            if not self._may_have(trial, taken):
                return
            turn = self._waiting[trial][0]
            self._forget(trial, turn)
            if not turn.done():
                self._free -= 1
                self._taken[trial] = taken + 1
                turn.set_result(None)

    def _may_have(self, trial: int, taken: int) -> bool:
        return taken < _GREED * self._free if trial else self._free > 0

    def _forget(self, trial: int, turn: "asyncio.Future[None]") -> None:
        queue = self._waiting.pop(trial, None)
        if queue is None:
            return
        if turn in queue:
            queue.remove(turn)
        if queue:  # at the end: trials with as many calls take turns
            self._waiting[trial] = queue
