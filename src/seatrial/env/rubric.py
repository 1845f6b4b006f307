"""Rubric: what a rollout is worth, as the weighted sum of reward functions; those of weight 0 are metrics."""

import asyncio
import copy
import inspect
import itertools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from seatrial.env.hooks import blaming, settled
from seatrial.env.state import State
from seatrial.errors import HookError, RewardError, UsageError

RewardFunc = Callable[..., Any]
"""Returns a number, or an awaitable of one, from what it names: prompt, completion, answer, state, task, info, …"""

_log = logging.getLogger(__name__)


class Rubric:
    """Reward functions and their weights.

    A function gets by name whatever it asks for: `prompt`, `completion`, `answer`, `state`, `task`, `info`, any other
    column of the row, and what `add_class_object` named; with `**kwargs` it gets all of it. Those of one rollout run
    in their order, so that a later one may read what an earlier one wrote into the state; plain functions run in a
    thread. A metric that raises is None; without one of the rewards there is no reward.
    """

    def __init__(self, funcs: Sequence[RewardFunc] | None = None, weights: Sequence[float] | None = None) -> None:
        self.funcs: list[RewardFunc] = list(funcs or ())
        self.weights: list[float] = [1.0] * len(self.funcs) if weights is None else [float(each) for each in weights]
        self.class_objects: dict[str, Any] = {}
        if len(self.weights) != len(self.funcs):
            raise UsageError(f"the rubric has {len(self.funcs)} functions but {len(self.weights)} weights")

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a function to the sum."""
        self.funcs.append(func)
        self.weights.append(weight)

    def add_metric(self, func: RewardFunc, weight: float = 0.0) -> None:
        """Add a function that is only reported."""
        self.add_reward_func(func, weight)

    def add_class_object(self, name: str, value: Any) -> None:
        """Let functions ask for something by a name."""
        self.class_objects[name] = value

    def plus(self, other: "Rubric") -> Self:
        """This rubric with the functions of another one after its own; neither is changed."""
        both = copy.copy(self)
        both.funcs, both.weights = [*self.funcs, *other.funcs], [*self.weights, *other.weights]
        both.class_objects = {**self.class_objects, **other.class_objects}
        return both

    async def score_rollout(self, state: State) -> None:
        """Set `reward` and `metrics` of a state, and `reward_errors` by the names of functions that failed.

        Without any function, the reward stays what the environment itself made it.
        Raises RewardError when one of them has a weight: then there is no reward, and none is made up.
        """
        offered = {**_columns(state), **self.class_objects}
        reward, failed = 0.0, None
        metrics: dict[str, float | None] = {}
        for func, weight in zip(self.funcs, self.weights, strict=True):
            name = _new_name(func, metrics)
            try:
                metrics[name] = value = await _call(func, name, offered)
                reward += weight * value
            except HookError as error:
                _log.warning("rollout of %s: %s", state["task"], error, exc_info=error.__cause__)
                metrics[name], state["reward_errors"][name] = None, str(error)
                failed = failed or (error if weight else None)
        state["metrics"] = metrics
        if failed is not None:
            raise failed
        if self.funcs:
            state["reward"] = reward


def _columns(state: State) -> Mapping[str, Any]:
    named = {name: state[name] for name in ("prompt", "completion", "answer", "task", "info", "example_id")}
    return {**state["input"], **named, "state": state}


def _new_name(func: RewardFunc, taken: Mapping[str, Any]) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
    return next(each for each in names if each not in taken)


async def _call(func: RewardFunc, name: str, offered: Mapping[str, Any]) -> float:
    with blaming(f"the reward function {name}", RewardError):
        parameters = inspect.signature(func).parameters
        takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        wanted = offered if takes_all else {key: value for key, value in offered.items() if key in parameters}
        if inspect.iscoroutinefunction(func):
            value = await func(**wanted)
        else:
            value = await settled(await asyncio.to_thread(func, **wanted))
        return as_reward(value)


def as_reward(value: Any) -> float:
    """A number from what was meant to be one. Raises TypeError or ValueError."""
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a reward")
    return number
