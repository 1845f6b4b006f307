"""The trials that wait for their turn, and what may end a run before they get it."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from seatrial.jobs.plan import TrialPlan

Stop = Literal["complete", "trial budget", "wall budget", "agent warnings"]


class TrialQueue:
    """Hands out trials in order until there are none, a budget is used up, or it is closed.

    What runs may finish when the budget of trials is used up; `closed` ends it.
    """

    def __init__(self, trials: Sequence[TrialPlan], max_trials: int | None = None) -> None:
        self.started = 0
        self.closed = asyncio.Event()
        self.trials = trials if max_trials is None else trials[:max_trials]
        self._waiting = iter(self.trials)
        self._stopped: Stop = "complete" if len(self.trials) == len(trials) else "trial budget"

    def take(self) -> TrialPlan | None:
        """The next trial, or None when there is none to be started any more."""
        return None if self.closed.is_set() else next(self._waiting, None)

    def start(self) -> bool:
        """Whether a trial that was taken may start now, after it had to wait for a place."""
        if self.closed.is_set():
            return False
        self.started += 1
        return True

    def close(self, reason: Stop) -> None:
        """Start no more trials, and end those that run. The first reason counts."""
        if not self.closed.is_set():
            self._stopped = reason
            self.closed.set()

    @property
    def stopped(self) -> Stop:
        """Why no more trials are started."""
        return self._stopped
