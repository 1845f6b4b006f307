"""Agents on the same tasks: how much one is better, how sure that is, and which ranks several may have.

Differences of rewards have a sign-flip test and an interval; amounts, such as cost, have Student's interval.
`expected.py` says what could have been found at all.
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from seatrial.stats.estimates import gathered, spread_of, student_t
from seatrial.stats.expected import detectable, sample_of

EXACT_UP_TO = 20
"""A million ways to flip this many signs are counted; of more, some are drawn."""

RESAMPLES = 100_000
MANY_RESAMPLES = 10_000
"""For more than `MANY` differences, so that 100,000 take less than a second."""

MANY = 10_000

_ROUNDING = 1e-12
"""No two rewards differ by so little, and their means only since floats are rounded: that of 0.1, 0.2 and 0.3 is not
quite that of 0.2, 0.2 and 0.2.
"""


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean of second minus first over tasks, with its interval and the p-value of a sign-flip test."""

    tasks: int
    difference: float
    low: float
    high: float
    level: float
    p_value: float
    test: Literal["exact", "monte_carlo"]
    draws: int
    """How often signs were drawn for a `monte_carlo` one, 0 where all ways to flip them were counted."""
    wins: int
    losses: int
    sd: float
    """How much the differences of tasks differ, 0 for one task."""
    detectable: float
    """The difference that would be found four times out of five with so many tasks that differ so much.

    It is never 0, even if no task differs. Above 1 there is no such difference.
    """


def task_difference(before: float, after: float) -> float:
    """By how much the second mean of a task is better; 0 where both are the same but for rounding."""
    difference = after - before
    return difference if abs(difference) > _ROUNDING else 0.0


def paired_difference(
    first: Sequence[float],
    second: Sequence[float],
    level: float = 0.95,
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
) -> Paired | None:
    """Compare the means of the same tasks, each between 0 and 1; None where there is no task.

    `clusters` says which tasks belong together, such as those made from one template.
    """
    differences = [task_difference(*each) for each in zip(first, second, strict=True)]
    if not differences:
        return None
    spread = spread_of(differences, clusters, (-1.0, 1.0), level)
    p_value, test = sign_flip(differences, seed, clusters)
    return Paired(
        tasks=len(differences),
        difference=spread.mean,
        low=spread.low,
        high=spread.high,
        level=level,
        p_value=p_value,
        test=test,
        draws=_draws(len(_sizes(differences, clusters))),
        wins=sum(each > 0 for each in differences),
        losses=sum(each < 0 for each in differences),
        sd=_sd(differences, spread.mean),
        detectable=detectable(sample_of(differences, clusters), 1.0 - level),
    )


def mcnemar(won: int, lost: int) -> float:
    """The exact p-value of McNemar's test: as many tasks won by one alone as by the other alone, each tried once."""
    from scipy.stats import binomtest  # noqa: PLC0415 - takes 0.7 s to import, and only comparisons need it

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def sign_flip(
    differences: Sequence[float],
    seed: int = 0,
    clusters: Sequence[Hashable] | None = None,
    resamples: int | None = None,
) -> tuple[float, Literal["exact", "monte_carlo"]]:
    """The p-value of no difference: how often the mean is as far from 0 when every sign is left to a coin.

    Those with the same name in `clusters` flip together. Neither their order nor who is compared with whom changes it.
    """
    sizes = _sizes(differences, clusters)
    if not sizes:
        return 1.0, "exact"
    total = math.fsum(sizes)
    seen = abs(math.fsum(differences)) - _ROUNDING * total
    draws = _draws(len(sizes))
    if not draws:
        return _exact(sizes, seen), "exact"
    return _drawn(sizes, seen, seed, resamples or draws), "monte_carlo"


def _draws(count: int) -> int:
    """How often signs are drawn for so many differences that are not 0; 0 where all ways to flip them are counted."""
    if count <= EXACT_UP_TO:
        return 0
    return RESAMPLES if count <= MANY else MANY_RESAMPLES


def _sizes(differences: Sequence[float], clusters: Sequence[Hashable] | None) -> list[float]:
    """The differences that are not 0, of tasks or of clusters, without their signs and in an order of their own."""
    sums = (abs(total) for total, _ in gathered(differences, clusters))
    return sorted((size for size in sums if size > _ROUNDING), reverse=True)


def _exact(sizes: Sequence[float], seen: float) -> float:
    """Half of all ways are enough: the other half mirrors them."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only comparisons need it

    sums = np.array([sizes[0]])
    for size in sizes[1:]:
        sums = np.concatenate((sums + size, sums - size))
    return float((np.abs(sums) >= seen).mean())


def _drawn(sizes: Sequence[float], seen: float, seed: int, resamples: int) -> float:
    """Eight signs are one random byte, and the sums of eight differences by that byte a table of 256."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only comparisons need it

    rng = np.random.default_rng(seed)
    signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) * 2.0 - 1.0
    padded = np.zeros(-(-len(sizes) // 8) * 8)
    padded[: len(sizes)] = sizes
    sums = np.zeros(resamples)
    for table in padded.reshape(-1, 8) @ signs.T:
        sums += table[rng.integers(0, 256, size=resamples, dtype=np.uint8)]
    hits = int((np.abs(sums) >= seen).sum())
    return (hits + 1) / (resamples + 1)


def _sd(values: Sequence[float], mean: float) -> float:
    if len(values) == 1:
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values after Holm, in the same order: what is below a level then is so in spite of all the others."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, least = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = least
    return adjusted


# Ranks. Every two agents are compared on the tasks they share, with p-values adjusted for the number of comparisons. An
# agent's best rank has only those before it that are better beyond chance, its worst all that are not worse.

_RESAMPLES = 20_000
"""Enough for p-values of 0.0001, and a table of 20 agents has 190 comparisons."""


@dataclass(frozen=True, slots=True)
class Rank:
    """An agent's mean over its tasks, and the ranks it may have."""

    agent: str
    mean: float
    tasks: int
    best: int
    worst: int
    group: int
    """Agents in one group cannot be told apart from the first in it."""
    even: tuple[str, ...]
    """All agents that it cannot be told apart from."""
    behind: tuple[str, ...]
    """Those that are better than it, beyond chance, at the tasks that both have."""


def rank_agents(
    agents: Mapping[str, Mapping[str, float]],
    clusters: Mapping[str, Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> list[Rank]:
    """The agents by their means, highest first, from what each got at each task; those without a task are left out.

    `clusters` says which tasks belong together. Agents that share no task cannot be told apart.
    """
    means = {agent: math.fsum(tasks.values()) / len(tasks) for agent, tasks in agents.items() if tasks}
    order = sorted(means, key=lambda agent: (-means[agent], agent))
    beaten = _beaten(order, agents, clusters or {}, level, seed)
    groups = _groups(order, beaten)
    return [
        Rank(
            agent=agent,
            mean=means[agent],
            tasks=len(agents[agent]),
            best=1 + sum((other, agent) in beaten for other in order),
            worst=len(order) - sum((agent, other) in beaten for other in order),
            group=groups[agent],
            even=tuple(other for other in order if other != agent and not {(agent, other), (other, agent)} & beaten),
            behind=tuple(other for other in order if (other, agent) in beaten),
        )
        for agent in order
    ]


def _beaten(
    order: list[str],
    agents: Mapping[str, Mapping[str, float]],
    clusters: Mapping[str, Hashable],
    level: float,
    seed: int,
) -> set[tuple[str, str]]:
    """Who is better than whom, beyond chance."""
    pairs = list(combinations(order, 2))
    tests = [_compared(agents[first], agents[second], clusters, seed) for first, second in pairs]
    adjusted = holm([p_value for p_value, _ in tests])
    return {
        pair if difference > 0 else pair[::-1]
        for pair, (_, difference), p_value in zip(pairs, tests, adjusted, strict=True)
        if p_value <= 1.0 - level and difference
    }


def _compared(
    first: Mapping[str, float], second: Mapping[str, float], clusters: Mapping[str, Hashable], seed: int
) -> tuple[float, float]:
    """The p-value, and by how much the first is better."""
    common = [task for task in first if task in second]
    differences = [task_difference(second[task], first[task]) for task in common]
    names = [(task in clusters, clusters.get(task, task)) for task in common] if clusters else None
    p_value, _ = sign_flip(differences, seed, names, _RESAMPLES)
    return p_value, math.fsum(differences)


def _groups(order: list[str], beaten: set[tuple[str, str]]) -> dict[str, int]:
    """A new group starts where one is told apart from the first of the group before: it is worse, or better at the
    tasks that both have.
    """
    groups: dict[str, int] = {}
    leader, number = "", 0
    for agent in order:
        if not number or {(leader, agent), (agent, leader)} & beaten:
            leader, number = agent, number + 1
        groups[agent] = number
    return groups


# Amounts without a bound, such as money, tokens and seconds.


@dataclass(frozen=True, slots=True)
class AmountDifference:
    """The means of both over the same tasks, and second minus first with Student's interval.

    There is no interval, and `low` and `high` are None, for a single task.
    """

    tasks: int
    first: float
    second: float
    difference: float
    low: float | None
    high: float | None
    level: float


def amount_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> AmountDifference | None:
    """Compare amounts task by task, None where there is no task."""
    differences = [after - before for before, after in zip(first, second, strict=True)]
    count = len(differences)
    if not count:
        return None
    means = math.fsum(first) / count, math.fsum(second) / count
    mean = math.fsum(differences) / count
    if count == 1:
        return AmountDifference(count, *means, mean, None, None, level)
    half = student_t(level, count - 1) * statistics.stdev(differences) / math.sqrt(count)
    return AmountDifference(count, *means, mean, mean - half, mean + half, level)
