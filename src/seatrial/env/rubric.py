"""Rubric: what a rollout is worth, as the weighted sum of reward functions; those of weight 0 are metrics."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from seatrial.env.decorators import marked_methods, priority_of
from seatrial.env.group_scoring import (
    WeightedCall,
    above_mean,
    asked_advantages,
    for_each,
    give_advantage,
    measure_together,
    set_error,
    unscathed,
)
from seatrial.env.hooks import blaming, settled
from seatrial.env.parsers.parser import Parser
from seatrial.env.reward_sum import RewardSum
from seatrial.env.rubric_calls import RewardCall, RewardFunc, as_reward, func_name
from seatrial.env.state import State
from seatrial.errors import SeatrialError, UsageError

if TYPE_CHECKING:
    from seatrial.env.rubric_group import RubricGroup

__all__ = ["GroupProvider", "Provider", "RewardFunc", "Rubric", "as_reward"]

Provider = Callable[[State], Mapping[str, Any]]
GroupProvider = Callable[[list[State]], Mapping[str, Any]]

_COMPARED = ("prompt", "completion", "answer", "task", "info")

_log = logging.getLogger(__name__)


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
        self.funcs: list[RewardFunc] = list(funcs or ())
        self.weights: list[float] = [float(each) for each in weights or [1.0] * len(self.funcs)]
        self.parser = parser or Parser()
        self.class_objects: dict[str, Any] = {"parser": self.parser}
        self.logger = logging.getLogger(f"{__name__}.{type(self).__name__}")
        self._providers: list[Provider] = []
        self._group_providers: list[GroupProvider] = []
        self._cleanup_handlers: list[Callable[..., Any]] = []
        self._calls: dict[int, RewardCall] = {}
        if len(self.weights) != len(self.funcs):
            raise UsageError(f"the rubric has {len(self.funcs)} functions but {len(self.weights)} weights")

    def add_reward_func(self, func: RewardFunc, weight: float = 1.0) -> None:
        """Add a function to the sum."""
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
        """The rubrics that this one is made of."""
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
        """What a function may ask for, of one rollout."""
        named = {name: state.get(name) for name in ("prompt", "completion", "answer", "info", "example_id")}
        task = state.get("task")
        fields = task if isinstance(task, Mapping) else {}
        objects = {**state.get("input", {}), **fields, **named, "state": state, **self.class_objects, "task": task}
        for provider in self._providers:
            objects.update(provider(state))
        return objects

    def group_score_objects(self, states: list[State]) -> dict[str, Any]:
        """What a function of a group may ask for."""
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
        refuse_group(calls)
        added, offered = RewardSum(state), self.score_objects(state)
        for call, weight in calls:
            await added.ask(call, weight, offered)
        added.settle()

    async def score_group(self, states: list[State]) -> None:
        """Score the rollouts of one row: `reward`, `metrics` and `advantage` of each, and of its turns.

        Rollouts with an `error` are left as they are and count for nothing. One that cannot be scored gets an `error`.
        """
        await self.measure_group(states)
        scored = [state for state in unscathed(states) if state.get("reward") is not None]
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
        """Score the rollouts of one row without their advantages."""
        if self._compares():
            calls = self._weighted_calls()
            await measure_together(calls, unscathed(states), self.score_objects, self.group_score_objects)
        else:
            await for_each(unscathed(states), self.score_rollout)

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
                    await settled(handler(**self._asked_for(handler, state)))
            except SeatrialError as error:
                _log.warning("rollout of %s: %s", state.get("task"), error, exc_info=error.__cause__)
                state.setdefault("cleanup_errors", []).append(str(error))

    async def teardown(self) -> None:
        """End the use of this rubric: run the methods marked `teardown`, each even if another fails.

        Raises the first HookError then.
        """
        errors = []
        for name, handler in marked_methods(self, "teardown").items():
            try:
                with blaming(name):
                    await settled(handler())
            except SeatrialError as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def get_reward_funcs(self) -> list[RewardFunc]:
        """All functions, metrics included."""
        return list(self.funcs)

    def get_reward_weights(self) -> list[float]:
        """The weight of each function."""
        return list(self.weights)

    def get_reward_func_names(self) -> list[str]:
        """What the functions are called."""
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
        """All functions, metrics included."""
        return self.get_reward_funcs()

    @property
    def reward_weights(self) -> list[float]:
        """The weight of each function."""
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

    def _asked_for(self, handler: Callable[..., Any], state: State) -> Mapping[str, Any]:
        return RewardCall(handler).wanted({**self.score_objects(state), "state": state})


def refuse_group(calls: Sequence[WeightedCall]) -> None:
    """Raise UsageError when a function would compare a rollout with no other."""
    names = [call.name for call, _ in calls if call.is_group]
    if names:
        raise UsageError(
            f"the reward function {names[0]} compares the rollouts of a group: score them together, by score_group"
        )
