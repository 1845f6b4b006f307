"""Scoring the rollouts of one row together: functions that compare them, and what each is worth beside the others."""

import asyncio
import itertools
import statistics
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from seatrial.concurrency import first_error
from seatrial.env.hooks import blaming
from seatrial.env.reward_sum import RewardSum
from seatrial.env.rubric_calls import RewardCall
from seatrial.env.state import State
from seatrial.errors import RewardError, SeatrialError

WeightedCall = tuple[RewardCall, float]
Offer = Callable[[State], Mapping[str, Any]]
GroupOffer = Callable[[list[State]], Mapping[str, Any]]


def unscathed(states: Iterable[State]) -> list[State]:
    """The states of rollouts that have not failed."""
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
    """Make a state that of a rollout that could not be scored."""
    state["error"], state["reward"], state["advantage"] = error, None, None


async def measure_together(
    calls: Sequence[WeightedCall], states: list[State], offer: Offer, offers: GroupOffer
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
    await for_each(unscathed(states), settle)


async def _compare(call: RewardCall, weight: float, sums: list[RewardSum], offers: GroupOffer) -> None:
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
    """How far the reward of each is above the mean of all."""
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
