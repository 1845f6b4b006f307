"""A mean over tasks, and how sure one may be of it.

Tasks are a sample of those one could have taken, and trials of one task are alike. So trials are averaged within their
task, and the interval comes from how the means of tasks differ.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from seatrial.stats.spread import spread_of


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval, over `values` in `groups`.

    They say about as much as `effective` independent values of 0 and 1, of which there are never more than `values`.
    """

    value: float
    low: float
    high: float
    level: float
    values: int
    groups: int
    effective: float


def estimate_mean(
    groups: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> Estimate | None:
    """The mean of the means of groups of values between 0 and 1, None when there is no value.

    `clusters` says which groups belong together, such as tasks made from one template. Empty groups do not count.
    """
    chosen = [values for values in groups if values]
    if not chosen:
        return None
    means = [math.fsum(values) / len(values) for values in chosen]
    names = [name for name, values in zip(clusters, groups, strict=True) if values] if clusters is not None else None
    spread = spread_of(means, names, (0.0, 1.0), level)
    count = sum(map(len, chosen))
    return Estimate(spread.mean, spread.low, spread.high, level, count, len(means), min(float(count), spread.effective))
