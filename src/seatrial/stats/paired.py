"""Two agents on the same tasks: how much one is better, how sure that is, and what could have been seen at all."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from seatrial.stats.expected import detectable, sample_of
from seatrial.stats.spread import spread_of

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
    """The mean of second minus first over tasks, with its interval and the p-value of a sign-flip test.

    `draws` is how often signs were drawn for a `monte_carlo` one, 0 where all ways to flip them were counted.
    `sd` is how much the differences of tasks differ, 0 for one task. `detectable` is the difference that would be found
    four times out of five with so many tasks that differ so much; it is never 0, even if no task differs. Above 1 there
    is no such difference.
    """

    tasks: int
    difference: float
    low: float
    high: float
    level: float
    p_value: float
    test: Literal["exact", "monte_carlo"]
    draws: int
    wins: int
    losses: int
    sd: float
    detectable: float


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
    sums = (abs(each) for each in _together(differences, clusters))
    return sorted((size for size in sums if size > _ROUNDING), reverse=True)


def _together(differences: Sequence[float], clusters: Sequence[Hashable] | None) -> list[float]:
    if clusters is None:
        return list(differences)
    found: defaultdict[Hashable, list[float]] = defaultdict(list)
    for difference, name in zip(differences, clusters, strict=True):
        found[name].append(difference)
    return [math.fsum(each) for each in found.values()]


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
