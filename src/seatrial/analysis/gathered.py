"""Trials, looked at once: what tallies are made of, and what the tallies of several groups share.

A large job has 100,000 trials. To count them for each agent and for all together, they are looked at once.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any

from seatrial.analysis.finished import Finished
from seatrial.model.record import SCORED_OUTCOMES, Outcome

SCORED = SCORED_OUTCOMES

# Asked of each trial: a getter takes half as long as the same in a loop.
_OUTCOME, _TASK, _PUT_BACK, _WARNINGS = map(attrgetter, ("outcome", "task_id", "put_back", "warnings"))
_TASK_AND_REWARD = attrgetter("task_id", "reward")
_USED = attrgetter("model_calls", "input_tokens", "output_tokens", "cost_usd", "prices")


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What the models of several trials used. There is a cost only if that of every call is known.

    `calls` are those of trials that tell them; imported ones may tell only their tokens.

    `prices` are the tables by which costs were computed; there may be several in a job that was resumed.
    """

    trials: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    prices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Gathered:
    """Trials, and those of them that were `scored`; by task the `rewards` of these, how many of them `passed`, and how
    many `trials` there are at all.
    """

    entries: list[Finished]
    scored: list[Finished]
    outcomes: Counter[Outcome]
    rewards: dict[str, list[float]]
    passed: Counter[str]
    trials: Counter[str]
    curated: int
    warnings: Counter[str]
    usage: UsageTotal | None


def gather(entries: list[Finished], broken: Collection[str]) -> Gathered:
    """Go through trials; none of a `broken` task is scored."""
    outcomes = [counted_outcome(entry, broken) for entry in entries] if broken else [*map(_OUTCOME, entries)]
    judged = zip(entries, outcomes, strict=True)
    scored = [entry for entry, outcome in judged if outcome in SCORED and entry.reward is not None]
    return Gathered(
        entries=entries,
        scored=scored,
        outcomes=Counter(outcomes),
        rewards=rewards_by_task(scored),
        passed=Counter([entry.task_id for entry in scored if entry.outcome == "pass"]),
        trials=Counter(map(_TASK, entries)),
        curated=sum(map(bool, map(_PUT_BACK, entries))),
        warnings=Counter(chain.from_iterable(map(_WARNINGS, entries))),
        usage=_total_usage(entries),
    )


def together(parts: Sequence[Gathered]) -> Gathered:
    """Groups of trials as one."""
    rewards: dict[str, list[float]] = defaultdict(list)
    for part in parts:
        for task, each in part.rewards.items():
            rewards[task].extend(each)
    return Gathered(
        entries=[entry for part in parts for entry in part.entries],
        scored=[entry for part in parts for entry in part.scored],
        outcomes=_added(part.outcomes for part in parts),
        rewards=rewards,
        passed=_added(part.passed for part in parts),
        trials=_added(part.trials for part in parts),
        curated=sum(part.curated for part in parts),
        warnings=_added(part.warnings for part in parts),
        usage=added_usage([part.usage for part in parts if part.usage]),
    )


def _added(counters: Iterable[Counter[Any]]) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for counter in counters:
        found.update(counter)
    return found


def added_usage(parts: Sequence[UsageTotal]) -> UsageTotal | None:
    """What several groups of trials used, None where there is none; a cost only if that of each is known."""
    if not parts:
        return None
    costs = [part.cost_usd for part in parts if part.cost_usd is not None]
    return UsageTotal(
        trials=sum(part.trials for part in parts),
        calls=sum(part.calls for part in parts),
        input_tokens=sum(part.input_tokens for part in parts),
        output_tokens=sum(part.output_tokens for part in parts),
        cost_usd=math.fsum(costs) if len(costs) == len(parts) else None,
        prices=tuple(sorted({prices for part in parts for prices in part.prices})),
    )


def rewards_by_task(scored: Iterable[Finished]) -> dict[str, list[float]]:
    """The rewards of scored trials, those of one task together."""
    return by_task(map(_TASK_AND_REWARD, scored))


def by_task(rewards: Iterable[tuple[str, float | None]]) -> dict[str, list[float]]:
    """Rewards with those of one task together, without those that are None."""
    found: dict[str, list[float]] = defaultdict(list)
    for task, reward in rewards:
        if reward is not None:
            found[task].append(reward)
    return found


def counted_outcome(entry: Finished, broken: Collection[str]) -> Outcome:
    """What a trial counts as."""
    return "verifier_error" if entry.outcome in SCORED and entry.task_id in broken else entry.outcome


def _total_usage(entries: list[Finished]) -> UsageTotal | None:
    used = [each for each in map(_USED, entries) if each[1] is not None]
    if not used:
        return None
    calls, told, said, spent, prices = zip(*used, strict=True)
    costs = [cost for cost, count in zip(spent, calls, strict=True) if count != 0]
    known = [cost for cost in costs if cost is not None]
    return UsageTotal(
        trials=len(used),
        calls=sum(filter(None, calls)),
        input_tokens=sum(filter(None, told)),
        output_tokens=sum(filter(None, said)),
        cost_usd=math.fsum(known) if len(known) == len(costs) else None,
        prices=tuple(sorted(filter(None, {*prices}))),
    )
