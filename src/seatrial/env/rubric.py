"""Rubric: what a rollout is worth, as the weighted sum of reward functions; those of weight 0 are metrics.

Here is how one function is called, how the values of one rollout are added up, and how the rollouts of a group are
scored beside each other. `rubric_group` makes one rubric of several, `run_row` decides when to score.
"""

import asyncio
import inspect
import itertools
import logging
import math
import os
import statistics
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, get_origin

from seatrial.concurrency import first_error
from seatrial.env.hooks import blaming, call_each, call_hook, in_daemon_thread, marked_methods, priority_of
from seatrial.env.parsers import Parser
from seatrial.env.rollout import State
from seatrial.errors import RewardError, SeatrialError, UsageError
from seatrial.model.arguments import as_list

if TYPE_CHECKING:
    from seatrial.env.rubric_group import RubricGroup

_log = logging.getLogger(__name__)

# Calls: a function gets what it asks for by name, on the event loop or in a thread.
#
# A hop to a thread and back costs more than a whole single-turn rollout may, yet a function that computes or waits
# must not hold up all other rollouts. So a plain function begins in a thread; once it has shown that it is quick, it
# is called in place, until it takes its time there.

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

_thread_limits: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}


def _thread_limit(loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    """How many functions of an event loop may be in threads at once. No pool: when Python ends, it waits for those."""
    if loop not in _thread_limits:
        for ended in [each for each in list(_thread_limits) if each.is_closed()]:
            _thread_limits.pop(ended, None)
    return _thread_limits.setdefault(loop, asyncio.Semaphore(MOST_THREADS))


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
        async with _thread_limit(asyncio.get_running_loop()):
            return await in_daemon_thread(partial(self._timed, wanted))

    def _timed(self, wanted: Mapping[str, Any]) -> Any:
        began = time.perf_counter()
        try:
            return self.func(**wanted)
        except StopIteration as error:  # which no thread can hand over to the one that waits for it
            raise RuntimeError("StopIteration") from error
        finally:
            self.pace.note(time.perf_counter() - began)


def func_name(func: RewardFunc) -> str:
    return getattr(func, "__name__", None) or type(func).__name__


def new_name(name: str, taken: Iterable[str]) -> str:
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


# The sum of one rollout.


class RewardSum:
    """The reward and the metrics of a rollout so far, and the first failure of a function that has a weight."""

    __slots__ = ("failed", "metrics", "reward", "state")

    def __init__(self, state: State) -> None:
        self.state = state
        self.reward = 0.0
        self.metrics: dict[str, float | None] = {}
        self.failed: SeatrialError | None = None

    async def ask(self, call: RewardCall, weight: float, offered: Mapping[str, Any]) -> None:
        try:
            value = await call.value(offered)
        except SeatrialError as error:
            self.fail(call, weight, error)
        else:
            self.take(call, weight, value)

    def take(self, call: RewardCall, weight: float, value: Any) -> None:
        try:
            number = call.number(value)
        except SeatrialError as error:
            self.fail(call, weight, error)
        else:
            self.metrics[new_name(call.name, self.metrics)] = number
            self.reward += weight * number

    def fail(self, call: RewardCall, weight: float, error: SeatrialError) -> None:
        """Take in that a function failed: without a weight, only its own metric is missing."""
        _log.warning("rollout of %s: %s", self.state.get("task"), error, exc_info=error.__cause__)
        name = new_name(call.name, self.metrics)
        self.metrics[name] = None
        self.state.setdefault("reward_errors", {})[name] = str(error)
        if weight:
            self.failed = self.failed or error

    def skip(self, call: RewardCall) -> None:
        self.metrics[new_name(call.name, self.metrics)] = None

    def settle(self) -> None:
        """Write `metrics` and `reward` into the state. Raises the first failure that leaves no reward."""
        self.state["metrics"] = self.metrics
        if self.failed is not None:
            raise self.failed
        if self.metrics:
            self.state["reward"] = self.reward


# Groups: the rollouts of one row, scored and compared together.

WeightedCall = tuple[RewardCall, float]
Provider = Callable[[State], Mapping[str, Any]]
GroupProvider = Callable[[list[State]], Mapping[str, Any]]


def not_failed(states: Iterable[State]) -> list[State]:
    return [state for state in states if state.get("error") is None]


async def for_each(states: Sequence[State], work: Callable[[State], Coroutine[Any, Any, None]]) -> None:
    """Do the same with each state, side by side. What goes wrong with one is its `error`, and it has no reward."""

    async def guarded(state: State) -> None:
        try:
            with blaming("scoring", RewardError):
                await work(state)
        except SeatrialError as error:
            set_error(state, error)

    try:
        async with asyncio.TaskGroup() as group:
            for state in states:
                group.create_task(guarded(state))
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None


def set_error(state: State, error: SeatrialError) -> None:
    state["error"], state["reward"], state["advantage"] = error, None, None


async def measure_together(
    calls: Sequence[WeightedCall], states: list[State], offer: Provider, offers: GroupProvider
) -> None:
    """Set `reward` and `metrics` of the states of a group, by functions in their order.

    Those of one rollout run one after the other, the rollouts side by side; a function of the group waits for all.
    A rollout of which a weighted function has failed is not compared with the others any more.
    """
    sums = {id(state): RewardSum(state) for state in states}

    async def ask(run: Sequence[WeightedCall], state: State) -> None:
        offered = offer(state)
        for call, weight in run:
            await sums[id(state)].ask(call, weight, offered)

    async def settle(state: State) -> None:
        sums[id(state)].settle()

    for is_group, each in itertools.groupby(calls, key=lambda call: call[0].is_group):
        run = list(each)
        if is_group:
            for call, weight in run:
                await _compare(call, weight, list(sums.values()), offers)
        else:
            await for_each(states, partial(ask, run))
    await for_each(not_failed(states), settle)


async def _compare(call: RewardCall, weight: float, sums: list[RewardSum], offers: GroupProvider) -> None:
    compared = [added for added in sums if added.failed is None and added.state.get("error") is None]
    for added in sums:
        if added not in compared:
            added.skip(call)
    if not compared:
        return
    try:
        with blaming("what functions of a group may ask for", RewardError):
            offered = offers([added.state for added in compared])
        values = await values_of(call, offered, len(compared))
    except SeatrialError as error:
        for added in compared:
            added.fail(call, weight, error)
        return
    for added, value in zip(compared, values, strict=True):
        added.take(call, weight, value)


async def values_of(call: RewardCall, offered: Mapping[str, Any], count: int) -> list[Any]:
    """What a function says of each rollout of a group. Raises RewardError when it does not."""
    given = await call.value(offered)
    with blaming(f"the reward function {call.name}", RewardError):
        values = list(given)
    if len(values) != count:
        raise RewardError(f"the reward function {call.name} returned {len(values)} numbers for {count} rollouts")
    return values


def above_mean(states: Sequence[State]) -> list[float]:
    mean = statistics.fmean(state["reward"] for state in states)
    return [state["reward"] - mean for state in states]


async def asked_advantages(call: RewardCall, states: list[State], offered: Mapping[str, Any]) -> list[float]:
    """The advantages that a function sees, which may ask for the `rewards` too. Raises RewardError."""
    rewards = [state["reward"] for state in states]
    values = await values_of(call, {**offered, "rewards": rewards}, len(states))
    return [call.number(value) for value in values]


def give_advantage(state: State, advantage: float) -> None:
    """Set the advantage of a rollout, and of each of its turns that has none of its own; so with the reward."""
    state["advantage"] = advantage
    for turn in state.get("trajectory") or ():
        for name in ("reward", "advantage"):
            if turn.get(name) is None:
                turn[name] = state[name]


def _weight(given: Any) -> float:
    try:
        return float(given)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the rubric has {given!r:.80} among its weights, expected numbers") from error


_COMPARED = ("prompt", "completion", "answer", "task", "info")


class Rubric:
    """Reward functions and their weights.

    A function gets by name whatever it asks for: `prompt`, `completion`, `answer`, `state`, `task`, `info`, `parser`,
    any other column of the row, and what `add_class_object` named; with `**kwargs` it gets all of it. One that asks for
    `prompts`, `completions`, `answers`, `states`, `tasks` or `infos` compares the rollouts of a group and returns a
    number for each. Those of one rollout run in their order, so that a later one may read what an earlier one wrote
    into the state. A plain function runs in a thread until it has shown itself to be quick.

    A metric that raises is None; without one of the rewards there is no reward.
    """

    def __init__(
        self,
        funcs: Sequence[RewardFunc] | None = None,
        weights: Sequence[float] | None = None,
        parser: Parser | None = None,
    ) -> None:
        self.funcs: list[RewardFunc] = as_list("funcs", funcs)
        self.weights: list[float] = [_weight(each) for each in as_list("weights", weights) or [1.0] * len(self.funcs)]
        self.parser = parser or Parser()
        self.class_objects: dict[str, Any] = {"parser": self.parser}
        self.logger = logging.getLogger(f"{__name__}.{type(self).__name__}")
        self._providers: list[Provider] = []
        self._group_providers: list[GroupProvider] = []
        self._cleanup_handlers: list[Callable[..., Any]] = []
        self._calls: dict[int, RewardCall] = {}
        if len(self.weights) != len(self.funcs):
            raise UsageError(f"the rubric has {len(self.funcs)} functions but {len(self.weights)} weights")
        for func in self.funcs:
            if not callable(func):
                raise UsageError(f"the rubric has {func!r:.80} among its functions, which cannot be called")

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        self.funcs.append(func)
        self.weights.append(weight)

    def add_metric(self, func: RewardFunc, weight: float = 0.0) -> None:
        """Add a function that is only reported."""
        self.add_reward_func(func, weight)

    def add_class_object(self, name: str, obj: Any) -> None:
        """Let functions ask for something by a name."""
        self.class_objects[name] = obj

    def add_score_object_provider(self, provider: Provider) -> None:
        """Let functions ask for what another function names for each rollout."""
        self._providers.append(provider)

    def add_group_score_object_provider(self, provider: GroupProvider) -> None:
        """Let functions of a group ask for what another function names for each group."""
        self._group_providers.append(provider)

    def add_cleanup_handler(self, handler: Callable[..., Any]) -> None:
        """Call a function when a rollout has been scored, with what it asks for by name."""
        self._cleanup_handlers.append(handler)

    def plus(self, other: "Rubric") -> "RubricGroup":
        """This rubric and another one, each with its own parser and objects; neither is changed."""
        from seatrial.env.rubric_group import RubricGroup  # noqa: PLC0415 - which is made of rubrics

        return RubricGroup([*self.members(), *other.members()])

    def members(self) -> list["Rubric"]:
        return [self]

    @property
    def has_group_rewards(self) -> bool:
        """Whether rollouts of a group are compared: by a function, or by a `score_group` of a subclass' own."""
        return type(self).score_group is not Rubric.score_group or self._compares()

    @property
    def has_advantages(self) -> bool:
        """Whether a function marked `advantage`, or a subclass, says what the advantages are."""
        return type(self).advantages is not Rubric.advantages or self._advantage_func() is not None

    def score_objects(self, state: State) -> dict[str, Any]:
        named = {name: state.get(name) for name in ("prompt", "completion", "answer", "info", "example_id")}
        task = state.get("task")
        fields = task if isinstance(task, Mapping) else {}
        objects = {**state.get("input", {}), **fields, **named, "state": state, **self.class_objects, "task": task}
        for provider in self._providers:
            objects.update(provider(state))
        return objects

    def group_score_objects(self, states: list[State]) -> dict[str, Any]:
        columns = {f"{name}s": [state.get(name) for state in states] for name in _COMPARED}
        objects = {**columns, "states": states, **self.class_objects}
        for provider in self._group_providers:
            objects.update(provider(states))
        return objects

    async def score_rollout(self, state: State) -> None:
        """Set `reward` and `metrics` of a state, and `reward_errors` by the names of functions that failed.

        Without any function, the reward stays what the environment itself made it.
        Raises what a function with a weight raised, as RewardError unless it is an error of ours: then there is no
        reward, and none is made up. Raises UsageError when a function compares rollouts of a group.
        """
        calls = self._weighted_calls()
        if compared := [call.name for call, _ in calls if call.is_group]:
            raise UsageError(
                f"the reward function {compared[0]} compares the rollouts of a group: score them together, "
                "by score_group"
            )
        added, offered = RewardSum(state), self.score_objects(state)
        for call, weight in calls:
            await added.ask(call, weight, offered)
        added.settle()

    async def score_group(self, states: list[State]) -> None:
        """Score the rollouts of one row: `reward`, `metrics` and `advantage` of each, and of its turns.

        Rollouts with an `error` are left as they are and count for nothing. One that cannot be scored gets an `error`.
        """
        await self.measure_group(states)
        scored = [state for state in not_failed(states) if state.get("reward") is not None]
        if not scored:
            return
        try:
            with blaming("advantages"):
                advantages = await self.advantages(scored)
        except SeatrialError as error:
            for state in scored:
                set_error(state, error)
            return
        for state, advantage in zip(scored, advantages, strict=True):
            give_advantage(state, advantage)

    async def measure_group(self, states: list[State]) -> None:
        if self._compares():
            calls = self._weighted_calls()
            await measure_together(calls, not_failed(states), self.score_objects, self.group_score_objects)
        else:
            await for_each(not_failed(states), self.score_rollout)

    async def advantages(self, states: list[State]) -> list[float]:
        """How much better each rollout of a group is than it might have been: than their mean, unless a function says.

        That is a function or a method marked `advantage`, which may ask for `rewards` beside what functions of a group
        get. Raises RewardError when it fails.
        """
        func = self._advantage_func()
        if func is None:
            return above_mean(states)
        return await asked_advantages(self._call(func), states, self.group_score_objects(states))

    async def cleanup(self, state: State) -> None:
        """Run the handlers of a rollout that was scored, each even if another fails: `cleanup_errors` say so."""
        for handler in self._cleanups():
            try:
                with blaming(func_name(handler)):
                    await call_hook(handler, **{**self.score_objects(state), "state": state})
            except SeatrialError as error:
                _log.warning("rollout of %s: %s", state.get("task"), error, exc_info=error.__cause__)
                state.setdefault("cleanup_errors", []).append(str(error))

    async def teardown(self) -> None:
        """End the use of this rubric: run the methods marked `teardown`, each even if another fails.

        Raises the first HookError then.
        """
        if errors := await call_each(marked_methods(self, "teardown")):
            raise errors[0]

    def get_reward_funcs(self) -> list[RewardFunc]:
        """All functions, metrics included."""
        return list(self.funcs)

    def get_reward_weights(self) -> list[float]:
        return list(self.weights)

    def get_reward_func_names(self) -> list[str]:
        return [func_name(func) for func in self.get_reward_funcs()]

    # The same by the names that environments call them, depending on the release they were written for.
    def _get_reward_funcs(self) -> list[RewardFunc]:
        return self.get_reward_funcs()

    def _get_reward_weights(self) -> list[float]:
        return self.get_reward_weights()

    def _get_reward_func_names(self) -> list[str]:
        return self.get_reward_func_names()

    @property
    def reward_funcs(self) -> list[RewardFunc]:
        return self.get_reward_funcs()

    @property
    def reward_weights(self) -> list[float]:
        return self.get_reward_weights()

    def _weighted_calls(self) -> list[WeightedCall]:
        both = zip(self.funcs, self.weights, strict=True)
        return [(self._call(func), weight) for func, weight in both if priority_of(func, "advantage") is None]

    def _compares(self) -> bool:
        return any(call.is_group for call, _ in self._weighted_calls())

    def _call(self, func: RewardFunc) -> RewardCall:
        call = self._calls.get(id(func))
        if call is None or call.func is not func:
            call = self._calls[id(func)] = RewardCall(func)
        return call

    def _advantage_func(self) -> RewardFunc | None:
        marked = [func for func in self.funcs if priority_of(func, "advantage") is not None]
        marked += marked_methods(self, "advantage").values()
        return max(marked, key=lambda func: priority_of(func, "advantage") or 0, default=None)

    def _cleanups(self) -> list[Callable[..., Any]]:
        handlers = [*marked_methods(self, "cleanup").values(), *self._cleanup_handlers]
        return sorted(handlers, key=lambda handler: -(priority_of(handler, "cleanup") or 0))
