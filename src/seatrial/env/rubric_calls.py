"""How a reward function is called: with what it asks for by name, on the event loop or in a thread.

A hop to a thread and back costs more than a whole single-turn rollout may, yet a function that computes or waits
must not hold up all other rollouts. So a plain function begins in a thread; once it has shown that it is quick, it
is called in place, until it takes its time there.
"""

import asyncio
import inspect
import itertools
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, get_origin

from seatrial.env.hooks import blaming
from seatrial.env.own_thread import in_own_thread
from seatrial.errors import RewardError

RewardFunc = Callable[..., Any]
"""Returns a number, or an awaitable of one, from what it names: prompt, completion, answer, state, task, info, …

One that names any of prompts, completions, answers, states, tasks, infos is asked once for a group of rollouts, and
returns a number for each.
"""

PLURALS = frozenset({"prompts", "completions", "answers", "states", "tasks", "infos"})

QUICK_SEC = 50e-6
"""Less than a hop to a thread, and than it takes to start an event loop, which could not be done on the loop."""
SLOW_SEC = 1e-3
FIRST_PROOFS = 3
MOST_PROOFS = 3072
MOST_THREADS = min(32, (os.cpu_count() or 1) + 4)
"""As many as a pool of Python's own has."""

_all_seats: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


def _seats(loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    """How many functions of an event loop may be in threads at once. No pool: when Python ends, it waits for those."""
    if loop not in _all_seats:
        for ended in [each for each in list(_all_seats) if each.is_closed()]:
            _all_seats.pop(ended, None)
    return _all_seats.setdefault(loop, asyncio.Semaphore(MOST_THREADS))


class Pace:
    """Whether a plain function may be called on the event loop, from how long its calls took.

    It may after a few quick calls in a row. A slow call on the loop sends it back to threads, and doubles the number
    of quick calls that bring it here again, so that one that is slow now and then holds up the loop ever more rarely.
    """

    __slots__ = ("on_loop", "proofs", "quick")

    def __init__(self) -> None:
        self.on_loop = False
        self.proofs = FIRST_PROOFS
        self.quick = 0

    def note(self, seconds: float) -> None:
        """Take a call into account."""
        if self.on_loop:
            if seconds > SLOW_SEC:
                self.on_loop, self.quick = False, 0
                self.proofs = min(self.proofs * 2, MOST_PROOFS)
            return
        self.quick = self.quick + 1 if seconds <= QUICK_SEC else 0
        self.on_loop = self.quick >= self.proofs


class RewardCall:
    """A reward function, with what can be known of it found out once. Raises RewardError for what has no signature."""

    __slots__ = ("func", "is_async", "is_group", "name", "names", "pace", "takes_all")

    def __init__(self, func: RewardFunc) -> None:
        self.func = func
        self.name = func_name(func)
        with blaming(f"the reward function {self.name}", RewardError):
            signature = inspect.signature(func)
        kinds = {each.kind for each in signature.parameters.values()}
        self.takes_all = inspect.Parameter.VAR_KEYWORD in kinds
        self.names = tuple(signature.parameters)
        self.is_group = not PLURALS.isdisjoint(self.names) or _is_list(signature.return_annotation)
        self.is_async = inspect.iscoroutinefunction(func)
        self.pace = Pace()

    def wanted(self, offered: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the function asks for, of what there is."""
        return offered if self.takes_all else {name: offered[name] for name in self.names if name in offered}

    async def value(self, offered: Mapping[str, Any]) -> Any:
        """What the function returns. Raises RewardError for whatever it raises, unless that is an error of ours."""
        wanted = self.wanted(offered)
        try:
            if self.is_async:
                return await self.func(**wanted)
            value = self._timed(wanted) if self.pace.on_loop else await self._aside(wanted)
            return await value if inspect.isawaitable(value) else value
        except BaseException:  # only now, since it is asked for each function of each rollout
            with blaming(f"the reward function {self.name}", RewardError):
                raise

    def number(self, value: Any) -> float:
        """The number that the function returned. Raises RewardError when it is none."""
        try:
            return as_reward(value)
        except Exception:
            with blaming(f"the reward function {self.name}", RewardError):
                raise

    async def _aside(self, wanted: Mapping[str, Any]) -> Any:
        async with _seats(asyncio.get_running_loop()):
            return await in_own_thread(partial(self._timed, wanted))

    def _timed(self, wanted: Mapping[str, Any]) -> Any:
        began = time.perf_counter()
        try:
            return self.func(**wanted)
        except StopIteration as error:  # which no thread can hand over to the one that waits for it
            raise RuntimeError("StopIteration") from error
        finally:
            self.pace.note(time.perf_counter() - began)


def func_name(func: RewardFunc) -> str:
    """What a function is called."""
    return getattr(func, "__name__", None) or type(func).__name__


def new_name(name: str, taken: Iterable[str]) -> str:
    """A name that is not taken: the one given, or that with a number."""
    if name not in taken:
        return name
    return next(each for number in itertools.count(2) if (each := f"{name}_{number}") not in taken)


def as_reward(value: Any) -> float:
    """A number from what was meant to be one. Raises TypeError or ValueError."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a reward")
    return number


def _is_list(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return annotation == "list" or annotation.startswith("list[")
    return annotation is list or get_origin(annotation) is list
