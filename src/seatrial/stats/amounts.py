"""Amounts without a bound, such as money, tokens and seconds, of two agents on the same tasks."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.stats.quantiles import student_t


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
