"""Agents on the same tasks: how much one is better, how sure that is, and which ranks several may have.

Differences of rewards have the test and the interval of `sign_flips.py`, amounts such as cost have Student's interval.
`expected.py` has what could have been found at all.
"""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from seatrial.stats.estimates import gathered, student_t
from seatrial.stats.expected import NEVER, POWER, detectable, sample_of
from seatrial.stats.sign_flips import (
    ROUNDING,
    as_many_alike,
    difference_interval,
    differing_of,
    draws_of,
    fewest_tasks,
    is_told_apart,
    least_p_value,
    share_at_most,
    sign_flip,
)


@dataclass(frozen=True, slots=True)
class Paired:
    """The mean of second minus first over tasks, with the p-value of a sign-flip test and the interval of the same."""

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
    return difference if abs(difference) > ROUNDING else 0.0


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
    alpha, mean = 1.0 - level, math.fsum(differences) / len(differences)
    p_value, test = sign_flip(differences, seed, clusters)
    low, high = difference_interval(differences, alpha, seed, clusters)
    return Paired(
        tasks=len(differences),
        difference=mean,
        low=low,
        high=high,
        level=level,
        p_value=p_value,
        test=test,
        draws=draws_of(differing_of(differences, clusters)),
        wins=sum(each > 0 for each in differences),
        losses=sum(each < 0 for each in differences),
        sd=_sd(differences, mean),
        detectable=_detectable(differences, clusters, alpha),
    )


def _detectable(differences: Sequence[float], clusters: Sequence[Hashable] | None, alpha: float) -> float:
    """Where tasks show nothing of how they vary, it takes a share of tasks wholly won of which enough are drawn."""
    sample, fewest = sample_of(differences, clusters), fewest_tasks(alpha)
    if sample.clusters < fewest:
        return NEVER
    if sample.variance > ROUNDING**2 and differing_of(differences, clusters) >= fewest:
        return detectable(sample, alpha)
    return share_at_most(fewest - 1, as_many_alike(gathered(differences, clusters)), 1.0 - POWER)


def mcnemar(won: int, lost: int) -> float:
    """The exact p-value of McNemar's test: as many tasks won by one alone as by the other alone, each tried once."""
    from scipy.stats import binomtest  # noqa: PLC0415 - takes 0.7 s to import, and only comparisons need it

    return float(binomtest(won, won + lost).pvalue) if won + lost else 1.0


def _sd(values: Sequence[float], mean: float) -> float:
    if len(values) == 1:
        return 0.0
    sd = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return sd if sd > ROUNDING else 0.0


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


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two agents at the tasks that both have."""

    difference: float
    """By how much the first is better, added up over tasks."""
    p_value: float
    least_p: float
    """The smallest p-value that so many tasks can have."""


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


@dataclass(frozen=True, slots=True)
class Ranking:
    """Agents in the order of their means, and the tests of every two of them that have a task in common."""

    ranks: tuple[Rank, ...]
    tests: Mapping[tuple[str, str], PairTest]
    level: float

    @property
    def least_p(self) -> float:
        """The smallest p-value after Holm that any two could have with so few tasks; 1 where there are no two."""
        return min(holm([test.least_p for test in self.tests.values()]), default=1.0)

    @property
    def too_few(self) -> bool:
        """Whether so few tasks could tell no two agents apart, whatever they did: then no rank means anything."""
        return bool(self.tests) and not is_told_apart(self.least_p, 1.0 - self.level)


def rank_agents(
    agents: Mapping[str, Mapping[str, float]],
    clusters: Mapping[str, Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> Ranking:
    """Rank agents by their means, highest first, from what each got at each task; those without a task are left out.

    `clusters` says which tasks belong together. Agents that share no task cannot be told apart.
    """
    means = {agent: math.fsum(tasks.values()) / len(tasks) for agent, tasks in agents.items() if tasks}
    order = sorted(means, key=lambda agent: (-means[agent], agent))
    found = {pair: _tested(agents[pair[0]], agents[pair[1]], clusters or {}, seed) for pair in combinations(order, 2)}
    tests = {pair: test for pair, test in found.items() if test}
    beaten = _beaten(tests, 1.0 - level)
    groups = _groups(order, beaten)
    ranks = [
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
    return Ranking(tuple(ranks), tests, level)


def _beaten(tests: Mapping[tuple[str, str], PairTest], alpha: float) -> set[tuple[str, str]]:
    """Who is better than whom, beyond chance."""
    adjusted = holm([test.p_value for test in tests.values()])
    return {
        pair if test.difference > 0 else pair[::-1]
        for (pair, test), p_value in zip(tests.items(), adjusted, strict=True)
        if is_told_apart(p_value, alpha)
    }


def _tested(
    first: Mapping[str, float], second: Mapping[str, float], clusters: Mapping[str, Hashable], seed: int
) -> PairTest | None:
    common = [task for task in first if task in second]
    if not common:
        return None
    differences = [task_difference(second[task], first[task]) for task in common]
    names = [(task in clusters, clusters.get(task, task)) for task in common] if clusters else None
    p_value, _ = sign_flip(differences, seed, names)
    units = len(set(names)) if names is not None else len(common)
    return PairTest(math.fsum(differences), p_value, least_p_value(units))


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
