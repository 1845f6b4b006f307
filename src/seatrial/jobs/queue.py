"""The trials that wait for their turn, and the budgets that may end a run before they get it."""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from seatrial.jobs.plan import TrialPlan

Stop = Literal["complete", "trial budget", "wall budget"]


class TrialQueue:
    """Hands out trials in order until there are none or a budget is used up. What runs may always finish."""

    def __init__(
        self,
        trials: Sequence[TrialPlan],
        max_trials: int | None = None,
        max_wall_sec: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.started = self.done = 0
        self._trials = iter(trials if max_trials is None else trials[:max_trials])
        self._cut_short = max_trials is not None and len(trials) > max_trials
        self._clock = clock
        self._end = None if max_wall_sec is None else clock() + max_wall_sec
        self._out_of_time = False

    def take(self) -> TrialPlan | None:
        """The next trial, or None when there is none to be started any more."""
        plan = next(self._trials, None)
        return None if plan is None or not self._in_time() else plan

    def start(self) -> bool:
        """Whether a trial that was taken may start now, after it had to wait for a place."""
        if not self._in_time():
            return False
        self.started += 1
        return True

    @property
    def stopped(self) -> Stop:
        """Why no more trials are started."""
        if self._out_of_time:
            return "wall budget"
        return "trial budget" if self._cut_short else "complete"

    def _in_time(self) -> bool:
        self._out_of_time = self._out_of_time or (self._end is not None and self._clock() >= self._end)
        return not self._out_of_time
