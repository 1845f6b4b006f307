"""A mean over tasks, how sure one may be of it, and pass@k.

Tasks are a sample of those one could have taken, and trials of one task are alike. So trials are averaged within their
task, and the interval comes from how the means of tasks differ.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from statistics import NormalDist

# Wilson's interval of a share.


def wilson(mean: float, count: float, level: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a mean of `count` values between 0 and 1: `(low, high)` with low ≤ mean ≤ high.

    For values that are 0 or 1 this is the textbook interval of a proportion. For partial rewards it is conservative: of
    all distributions on [0, 1] with the same mean, the one on 0 and 1 alone has the largest variance, and that is the
    variance used here. Values are taken to be independent of each other; where they are not, `count` is how many
    independent ones say as much, and need not be whole.

    Raises ValueError when the mean is not in [0, 1], nothing was counted, or the level is not between 0 and 1.
    """
    _check(mean, count, level)
    squared = NormalDist().inv_cdf((1.0 - level) / 2.0) ** 2
    low, high = _lower(mean, count, squared), 1.0 - _lower(1.0 - mean, count, squared)
    return min(low, mean), max(high, mean)  # rounding may put a bound a hair on the wrong side


def _lower(mean: float, count: float, squared: float) -> float:
    """The lower bound, by the product of both: their difference would lose every digit where the mean is next to 0."""
    half = math.sqrt(squared * (mean * (1.0 - mean) * count + squared / 4.0))
    upper = mean * count + squared / 2.0 + half
    return count * mean * mean / upper if mean else 0.0


def _check(mean: float, count: float, level: float) -> None:
    if not 0.0 <= mean <= 1.0:
        raise ValueError(f"the mean is {mean}, expected a number from 0 to 1")
    if not 0.0 < count < math.inf:
        raise ValueError(f"the count is {count}, expected more than 0: there is no interval for no values")
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level is {level}, expected a number between 0 and 1, such as 0.95")


# Student's quantiles without scipy: a summary needs one, and scipy takes 0.3 s and 50 MB to load.

SUREST = 0.999_999_9
"""The highest level that is asked for: beyond, an interval is everything, and soon no float has its quantile."""

_SERIES = 400
"""Up to so many degrees of freedom the distribution is summed; beyond, its expansion is exact to 1e-12."""


@lru_cache(maxsize=256)
def student_t(level: float, freedom: int) -> float:
    """The t with `level` of the distribution between -t and t. Raises ValueError for no degree of freedom."""
    if freedom < 1:
        raise ValueError(f"there are {freedom} degrees of freedom, expected at least 1")
    guess = _expanded(NormalDist().inv_cdf((1.0 + level) / 2.0), freedom)
    if freedom > _SERIES:
        return guess
    if freedom == 1:
        return math.tan(math.pi * level / 2.0)
    low, high = 0.0, 2.0 * guess + 1.0
    while _within(high, freedom) < level:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return high


def _expanded(z: float, freedom: int) -> float:
    """Cornish and Fisher's expansion (Abramowitz and Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def _within(t: float, freedom: int) -> float:
    """The share of the distribution between -t and t, from 2 degrees of freedom on (ibid. 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    if freedom % 2 == 0:
        return sine * _summed(1.0, cosine, range(1, freedom - 1, 2))
    return 2.0 / math.pi * (angle + sine * _summed(cosine, cosine, range(2, freedom - 1, 2)))


def _summed(first: float, cosine: float, odds: range) -> float:
    total = term = first
    for number in odds:
        term *= cosine * cosine * number / (number + 1)
        total += term
    return total


# The interval of a mean of values from 0 to 1, from how they differ between clusters. Where values are all alike, as
# when every task was solved, Student's interval has no width, though a task that cannot be solved may simply not have
# been drawn. So a few clusters more are counted at each end of the range (after Agresti and Coull, 1998, and Bonett and
# Price, 2012). They also move the middle; where many values hardly differ, that would be away from the truth, so the
# interval reaches as far from the mean itself. `benchmarks.coverage` shows how often it holds the truth.

Cluster = tuple[float, float]
"""What its values add up to, and how many there are."""

ADDED_AT_EACH_END = 2
"""How many clusters it takes for 95 % to be 95 % everywhere."""


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


def spread_of(values: Sequence[float], clusters: Sequence[Hashable] | None, level: float) -> Spread:
    """The spread of one value or more, from 0 to 1. Values with the same name in `clusters` belong together."""
    added, seen = ADDED_AT_EACH_END, gathered(values, clusters)
    totals, sizes = zip(*seen, strict=True)
    total, count = math.fsum(totals), math.fsum(sizes)
    # Each as large as the cluster of an average value: clusters of one would weigh nothing beside large families.
    size = math.fsum([size**2 for size in sizes]) / count if clusters is not None else 1.0
    mean = min(1.0, max(0.0, total / count))  # rounding may put it a hair outside
    middle = (total + added * size) / (count + 2 * added * size)
    number = len(seen) + 2 * added
    ends = added * size**2 * (middle**2 + (1.0 - middle) ** 2)
    squares = math.fsum([(total - size * middle) ** 2 for total, size in seen]) + ends
    error = math.sqrt(number / (number - 1) * squares) / (count + 2 * added * size)
    reach = student_t(level, number - 1) * error
    return Spread(
        mean=mean,
        low=max(0.0, min(mean, middle) - reach),
        high=min(1.0, max(mean, middle) + reach),
        error=error,
        effective=max(1.0, middle * (1.0 - middle) / error**2 - (2 * added - 1)),
    )


def gathered(values: Sequence[float], clusters: Sequence[Hashable] | None) -> list[Cluster]:
    """Values by their clusters, each alone where there are none."""
    if clusters is None:
        return [(value, 1.0) for value in values]
    found: defaultdict[Hashable, list[float]] = defaultdict(list)
    for value, name in zip(values, clusters, strict=True):
        found[name].append(value)
    return [(math.fsum(each), float(len(each))) for each in found.values()]


# Means over tasks.


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
    spread = spread_of(means, names, level)
    count = sum(map(len, chosen))
    return Estimate(spread.mean, spread.low, spread.high, level, count, len(means), min(float(count), spread.effective))


# pass@k: would one of k attempts at a task have passed, would all k, and does the agent always do the same?

Attempts = tuple[int, int]
"""How many attempts at a task were judged, and how many of them passed."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Tasks by what became of their attempts; only those that were attempted more than once can be `flaky`."""

    tasks: int
    always: int
    never: int
    flaky: int


@lru_cache(maxsize=4096)
def pass_at_k(judged: int, passed: int, k: int) -> float | None:
    """The chance that at least one of `k` attempts, drawn from those that were judged, passed; None for too few."""
    if judged < k:
        return None
    return 1.0 - comb(judged - passed, k) / comb(judged, k)


@lru_cache(maxsize=4096)
def pass_all_k(judged: int, passed: int, k: int) -> float | None:
    """The chance that all of `k` attempts, drawn from those that were judged, passed; None for too few."""
    if judged < k:
        return None
    return comb(passed, k) / comb(judged, k)


def estimate_pass_at_k(
    tasks: Sequence[Attempts], k: int, level: float = 0.95, clusters: Sequence[Hashable] | None = None
) -> Estimate | None:
    """pass@k over those tasks that were judged k times or more, None where there is none."""
    return estimate_mean([_known(pass_at_k(*task, k)) for task in tasks], clusters, level)


def estimate_pass_all_k(
    tasks: Sequence[Attempts], k: int, level: float = 0.95, clusters: Sequence[Hashable] | None = None
) -> Estimate | None:
    """pass^k over those tasks that were judged k times or more, None where there is none."""
    return estimate_mean([_known(pass_all_k(*task, k)) for task in tasks], clusters, level)


def _known(value: float | None) -> list[float]:
    return [] if value is None else [value]


def stability(tasks: Iterable[Attempts]) -> Stability:
    """How many tasks always, never or sometimes passed; those that were never judged do not count."""
    judged = [(count, passed) for count, passed in tasks if count]
    always = sum(passed == count for count, passed in judged)
    never = sum(passed == 0 for _, passed in judged)
    return Stability(len(judged), always, never, len(judged) - always - never)
