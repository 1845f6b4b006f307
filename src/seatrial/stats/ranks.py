"""Which ranks several agents may have, instead of the one that chance gave them.

Every two agents are compared on the tasks they share, and the p-values are adjusted for how many comparisons there are.
An agent's best rank has only those before it that are better beyond chance, its worst all that are not worse.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations

from seatrial.stats.multiple import holm
from seatrial.stats.paired import sign_flip, task_difference

_RESAMPLES = 20_000
"""Enough for p-values of 0.0001, and a table of 20 agents has 190 comparisons."""


@dataclass(frozen=True, slots=True)
class Rank:
    """An agent's mean over its tasks, and the ranks it may have.

    Agents in one `group` cannot be told apart from the first in it. `even` are all that it cannot be told apart from,
    `behind` those that are better than it, beyond chance, at the tasks that both have.
    """

    agent: str
    mean: float
    tasks: int
    best: int
    worst: int
    group: int
    even: tuple[str, ...]
    behind: tuple[str, ...]


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
