"""How long an agent has waited for its model without a word, and from when on that is the model's failure.

An agent chooses when it asks and when it hangs up, so neither may decide by itself whether its trial counts. A call
that is hung up on before its answer is complete is therefore seen through, until the model says one more word (then it
was the agent who did not wait) or has been silent for so long that nobody need have waited longer. When the agent has
ended before that is known, a plain question tells, for which the model has as long as the agent waited.
"""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any, Literal

LONG_SEC = 60.0
"""Nobody need wait longer than this for a first word, unless the model has been slower before."""

_SHORT_SHARE = 0.25  # of an agent's time, where that is short
_LONG_SHARE = 0.1  # of an agent's time, for one that ran out of it
_SLOWER = 2.0  # so many times the slowest answer before
_MODEST = 16  # whoever has more calls open at a time waits for itself
_FLOOD = 64  # and whoever has more than this is what keeps the provider busy
_MOST_SEEN_THROUGH = 4
_GLANCE_SEC = 1.0  # whoever had an answer before and leaves a call sooner than this does not wait for it
_LATE_SEC = 1.0  # a client may give up on a connection that is not accepted for so long
_LEAST_DOUBT_SEC = 3.0  # some models take this long to say a word
_MOST_DOUBT_SEC = 10.0  # nobody waits longer for a trial whose agent has ended

Leaver = Literal["agent", "us"]
_Task = asyncio.Task[Any] | None


def longest_silence_sec(agent_sec: float | None, slowest_sec: float = 0.0) -> float:
    """How long a model may be silent before that is its failure, for an agent that gave up on it."""
    short = LONG_SEC if agent_sec is None else min(LONG_SEC, _SHORT_SHARE * agent_sec)
    return max(short, _SLOWER * slowest_sec)


def robbed_sec(agent_sec: float | None, slowest_sec: float = 0.0) -> float:
    """The same for an agent whose time ran out: the last moments of a long time are not what it lacked."""
    return max(longest_silence_sec(agent_sec, slowest_sec), _LONG_SHARE * (agent_sec or 0.0))


class PendingCall:
    """One call, from when it was made to when it ended."""

    __slots__ = ("_waits", "goes_on", "heard_at", "left_at", "left_by", "started", "task", "timer")

    def __init__(self, waits: "StallMonitor", task: _Task, goes_on: Callable[[], bool]) -> None:
        self._waits = waits
        self.goes_on = goes_on
        self.task = task
        self.started = waits.clock()
        self.heard_at: float | None = None
        self.left_at: float | None = None
        self.left_by: Leaver | None = None
        """Who hung up, once somebody has."""
        self.timer: asyncio.TimerHandle | None = None

    def heard(self) -> None:
        """Something of an answer has come. It runs with every token."""
        waits = self._waits
        now = waits.clock()
        if self.heard_at is None:
            waits.slowest = max(waits.slowest, now - self.started)
        self.heard_at = waits.last_word = now

    def silent_sec(self) -> float:
        return self._waits.clock() - self.silent_since

    @property
    def silent_since(self) -> float:
        """When the last word came, or else the call was made."""
        return self.started if self.heard_at is None else self.heard_at


class StallMonitor:
    """All calls of one agent: which of them are open, and for how long together no word has come."""

    def __init__(self, *, sees_through: bool, clock: Callable[[], float] = monotonic) -> None:
        self.clock = clock
        self.last_word = float("-inf")
        self.closed = False
        """Whether the trial has no use for calls any more."""
        self._sees_through = sees_through
        self._agent_sec: float | None = None
        self._deadline = float("inf")
        self._open: dict[_Task, PendingCall] = {}
        self._seen_through = 0  # how many of them go on without the agent
        self._flooded_at = float("-inf")
        self.slowest = 0.0
        """The longest that a first word took."""
        self._silent = 0.0  # seconds waited since the last word, up to `_counted_at`
        self._counted_at = clock()
        self._owed: tuple[float, float] | None = None  # when a call was given up, and after how long a silence
        self._left_at = float("-inf")  # when the agent last hung up on a call
        self._late: tuple[float, float] | None = None  # when a connection was accepted too late, and how much
        self._failed = False
        self.trouble: str | None = None

    def came_late(self, seconds: float) -> None:
        """A connection of the agent's has waited so long to be accepted."""
        if seconds >= _LATE_SEC and len(self._open) <= _MODEST:
            self._late = (self.clock(), seconds)

    def late_sec(self) -> float | None:
        """How long a connection waited in vain: none had a word from the model since."""
        return self._late[1] if self._late is not None and self._late[0] >= self.last_word else None

    def agent_starts(self, agent_sec: float | None) -> None:
        """The agent begins now and has so much time, None for any. The shortest time told counts."""
        known = [each for each in (self._agent_sec, agent_sec) if each is not None]
        self._agent_sec = min(known, default=None)
        self._deadline = float("inf") if self._agent_sec is None else self.clock() + self._agent_sec

    def begin(self, goes_on: Callable[[], bool]) -> PendingCall:
        """A call is made. Earlier ones that were only seen through have nothing more to tell.

        `goes_on` is called when the agent has hung up and the call may be seen through without it; it says whether
        anything of the answer is still to come.
        """
        wait = PendingCall(self, asyncio.current_task(), goes_on)
        self._count(wait.started)
        if self._seen_through:
            for earlier in self._open.values():
                if earlier.timer is not None and earlier.task is not None:
                    earlier.task.cancel()
        self._open[wait.task] = wait
        if len(self._open) > _FLOOD:
            self._flooded_at = wait.started
        return wait

    def end(self, wait: PendingCall, *, answered: bool) -> None:
        now = self.clock()
        self._count(now)
        del self._open[wait.task]
        wait.goes_on = _never  # whoever made the call holds this wait too, and circles take long to be found
        if wait.timer is not None:
            wait.timer.cancel()
            self._seen_through -= 1
        if not answered and (silent := wait.silent_sec()) >= longest_silence_sec(self._agent_sec, self.slowest):
            self._owed = (now, silent)

    def agent_left(self, task: asyncio.Task[Any]) -> None:
        """The agent has hung up on the call that a task answers, which may have to go on without it for a while."""
        wait = self._open.get(task)
        if wait is None:
            task.cancel()
            return
        wait.left_at = self._left_at = self.clock()
        wait.left_by = "us" if self.closed or wait.left_at >= self._deadline else "agent"
        left_sec = self._doubt_left_sec(wait)
        may_go_on = self._sees_through and wait.left_by == "agent" and self._seen_through < _MOST_SEEN_THROUGH
        if may_go_on and left_sec > 0 and wait.goes_on():
            wait.timer = asyncio.get_running_loop().call_later(left_sec, task.cancel)
            self._seen_through += 1
        else:
            task.cancel()

    def flooded_since(self, wait: PendingCall) -> bool:
        """Whether so many calls were open during one that the agent itself may be what is too much for the provider."""
        return self._flooded_at >= wait.started

    def doubt_sec(self, *, timed_out: bool) -> float | None:
        """How long a plain question to the model may take now that the agent has ended; None if there is no doubt whose
        failure it is that calls came to nothing.

        There is one while a call is open, or was left, that has had no word since any call had one.
        """
        if self.owed_sec(timed_out=timed_out) is not None or len(self._open) > _MODEST:
            return None
        if not self._open and self._left_at <= self.last_word:
            return None
        if not self.is_patient and self.last_word > float("-inf"):
            return None
        return min(max(self._silent, self.slowest, _LEAST_DOUBT_SEC), _MOST_DOUBT_SEC)

    def break_off(self) -> None:
        """Break off the calls of an agent that has ended by itself."""
        for wait in self._open.values():
            wait.left_by = wait.left_by or "agent"
            if wait.task is not None:
                wait.task.cancel()

    @property
    def silent_sec(self) -> float:
        return self._silent

    @property
    def is_patient(self) -> bool:
        """Whether the agent has waited for longer than a glance since the last word."""
        return self._silent >= _GLANCE_SEC

    def fail(self, trouble: str | None) -> None:
        """The silence is the model's failure, however short it was: it would not even answer a plain question."""
        self._failed, self.trouble = True, trouble

    def owed_sec(self, *, timed_out: bool) -> float | None:
        """How long the model had been silent when the agent ended, if that is its failure."""
        now = self.clock()
        self._count(now)
        silent = self._silent
        if self._failed:
            return silent
        if len(self._open) <= _MODEST:
            silent = max([silent, *(wait.silent_sec() for wait in self._open.values())])
        if self._owed is not None and self._owed[0] >= self.last_word:
            silent = max(silent, self._owed[1])
        limit = robbed_sec if timed_out and now >= self._deadline else longest_silence_sec
        return silent if silent >= limit(self._agent_sec, self.slowest) else None

    def _doubt_left_sec(self, wait: PendingCall) -> float:
        """How much longer a call that its agent did not wait for may be silent: as long as the agent could have waited
        in its own time, so that nobody escapes an answer by leaving early."""
        could_wait_sec = min(LONG_SEC, self._deadline - wait.silent_since)
        return max(longest_silence_sec(self._agent_sec, self.slowest), could_wait_sec) - wait.silent_sec()

    def _count(self, now: float) -> None:
        """Bring the sum of the silence up to now."""
        if self.last_word > self._counted_at:
            self._silent, self._counted_at = 0.0, self.last_word
        if self._open:
            self._silent += now - self._counted_at
        self._counted_at = now


def _never() -> bool:
    return False
