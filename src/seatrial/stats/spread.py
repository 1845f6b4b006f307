"""An interval for the mean of values that cannot leave a range, from how they differ between clusters.

Where values are all alike, as when every task was solved, Student's interval has no width, though a task that cannot be
solved may simply not have been drawn. So a few clusters more are counted at each end of the range (after Agresti and
Coull, 1998, and Bonett and Price, 2012). They also move the middle of the interval; where there are many values that
hardly differ, that would be away from the truth, so the interval reaches as far from the mean itself.
`benchmarks.coverage` shows how often it holds the truth, beside others.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from seatrial.stats.quantiles import student_t

Cluster = tuple[float, float]
"""What its values add up to, and how many there are."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean, its interval, and its standard error, in which the added clusters count, so that it is never 0.

    `effective` is how many independent values at the ends of the range, and nowhere else, would say as much.
    """

    mean: float
    low: float
    high: float
    error: float
    effective: float


def spread_of(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None,
    limits: tuple[float, float],
    level: float,
) -> Spread:
    """The spread of one value or more, all within `limits`. Values with the same name in `clusters` belong together.

    Values may be below 0 where they are differences.
    """
    added = added_at_each_end(limits)
    seen, (least, most) = gathered(values, clusters), limits
    totals, sizes = zip(*seen, strict=True)
    total, count = math.fsum(totals), math.fsum(sizes)
    # Each as large as the cluster of an average value: clusters of one would weigh nothing beside large families.
    size = math.fsum([size**2 for size in sizes]) / count if clusters is not None else 1.0
    mean = min(most, max(least, total / count))  # rounding may put it a hair outside
    middle = (total + added * size * (least + most)) / (count + 2 * added * size)
    number = len(seen) + round(2 * added)
    ends = added * size**2 * ((least - middle) ** 2 + (most - middle) ** 2)
    squares = math.fsum([(total - size * middle) ** 2 for total, size in seen]) + ends
    error = math.sqrt(number / (number - 1) * squares) / (count + 2 * added * size)
    reach = student_t(level, number - 1) * error
    return Spread(
        mean=mean,
        low=max(least, min(mean, middle) - reach),
        high=min(most, max(mean, middle) + reach),
        error=error,
        effective=max(1.0, (middle - least) * (most - middle) / error**2 - (2 * added - 1)),
    )


def added_at_each_end(limits: tuple[float, float]) -> float:
    """How many clusters it takes for 95 % to be 95 % everywhere; twice that is a whole number.

    For differences fewer do: the ends of their range are twice as far apart.
    """
    return 1.5 if limits[0] < 0 else 2.0


def gathered(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[Cluster]:
    """Values by their clusters, each alone where there are none."""
    if clusters is None:
        return [(value, 1.0) for value in values]
    found: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, name in zip(values, clusters, strict=True):
        found[name].append(value)
    return [(math.fsum(each), float(len(each))) for each in found.values()]
