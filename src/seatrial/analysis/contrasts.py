"""A comparison in more detail: by parts of the verifier's breakdown, by labels of tasks, and what it cost.

Each of these looks only at tasks where both arms have the number. They are for looking closer and not for deciding,
hence without p-values: among many differences some are large by chance.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, get_args

from seatrial.analysis.comparison import Comparison, TaskPair
from seatrial.model.job import TaskLabels
from seatrial.stats.amounts import AmountDifference, amount_difference
from seatrial.stats.spread import spread_of
from seatrial.store.index import TrialEntry

Label = Literal["category", "difficulty", "family", "tag"]
LABELS: tuple[Label, ...] = get_args(Label)
Unit = Literal["USD", "tokens", "calls", "s"]


@dataclass(frozen=True, slots=True)
class PartDifference:
    """The means of both in one part of the breakdown, or at the tasks with one label, and second minus first."""

    name: str
    tasks: int
    first: float
    second: float
    difference: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What trials of both took of something, on average over the same tasks."""

    name: str
    unit: Unit
    amounts: AmountDifference


_MEASURES: tuple[tuple[str, Unit, str], ...] = (
    ("cost", "USD", "cost_usd"),
    ("model calls", "calls", "model_calls"),
    ("tokens in", "tokens", "input_tokens"),
    ("tokens out", "tokens", "output_tokens"),
    ("agent's time", "s", "agent_sec"),
    ("whole time", "s", "duration_sec"),
)
"""What trials take, in which unit, and where their entries have it."""


def dimension_differences(comparison: Comparison) -> list[PartDifference]:
    """The difference in each part of the breakdown that both arms have, in the order of their names."""
    first, second = (arm.pool.dimensions for arm in (comparison.first, comparison.second))
    names = sorted(first.keys() & second.keys())
    found = (_part(name, _pairs(first[name], second[name]), comparison) for name in names)
    return [each for each in found if each]


def group_differences(comparison: Comparison, by: Label) -> list[PartDifference]:
    """The difference at the tasks of each category, difficulty, family or tag; tasks without one are left out."""
    groups: dict[str, list[TaskPair]] = defaultdict(list)
    for pair in comparison.pairs:
        for label in labels_by(comparison.second.job.labels_of(pair.task_id), by):
            groups[label].append(pair)
    found = (_part(name, groups[name], comparison) for name in sorted(groups))
    return [each for each in found if each]


def labels_by(labels: TaskLabels, by: Label) -> tuple[str, ...]:
    """The labels of one kind that a task has."""
    if by == "tag":
        return labels.tags
    label: str | None = getattr(labels, by)
    return (label,) if label is not None else ()


def _part(name: str, pairs: Sequence[TaskPair], comparison: Comparison) -> PartDifference | None:
    if not pairs:
        return None
    clusters = comparison.clusters_of(pairs)
    differences = [pair.difference for pair in pairs]
    spread = spread_of(differences, clusters, (-1.0, 1.0), _level(comparison))
    first, second = _mean(pair.first for pair in pairs), _mean(pair.second for pair in pairs)
    return PartDifference(name, len(pairs), first, second, spread.mean, spread.low, spread.high)


def _level(comparison: Comparison) -> float:
    return comparison.paired.level if comparison.paired else 0.95


def _pairs(first: dict[str, float], second: dict[str, float]) -> list[TaskPair]:
    return [TaskPair(task, first[task], second[task]) for task in sorted(first.keys() & second.keys())]


def measured_differences(comparison: Comparison) -> list[Measured]:
    """Cost, calls, tokens and time of a scored trial, on average over the tasks where both arms know it of all."""
    trials = [arm.pool.by_task for arm in (comparison.first, comparison.second)]
    found = []
    for name, unit, where in _MEASURES:
        first, second = (_known(each, attrgetter(where)) for each in trials)
        tasks = sorted(first.keys() & second.keys())
        values = [first[task] for task in tasks], [second[task] for task in tasks]
        amounts = amount_difference(*values, _level(comparison))
        if amounts:
            found.append(Measured(name, unit, amounts))
    return found


def _known(trials: dict[str, list[TrialEntry]], measure: Callable[[TrialEntry], float | None]) -> dict[str, float]:
    """The mean of a task's trials, of those tasks where it is known of every one."""
    found = {}
    for task, group in trials.items():
        values = [*map(measure, group)]
        if None not in values:
            found[task] = math.fsum(filter(None, values)) / len(values)
    return found


def _mean(values: Iterable[float]) -> float:
    numbers = [*values]
    return math.fsum(numbers) / len(numbers)
