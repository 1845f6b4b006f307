"""One rule for differences: the p-value of the sign-flip test, and the interval that this test leaves.

If two agents were equally good, the difference at each task could as well have the other sign. The p-value is the share
of all ways to choose signs whose sum is as far from 0. The interval has every shift that the same test, of the
differences minus the shift, does not reject. So it excludes 0 exactly where the p-value is at most 1 - level.

To flip the signs of some tasks is to take twice their sum away, and the sum of all stays as far from a shift as long as
the mean of those tasks, or the mean of the others, is on the other side of it. So the ends of the interval are order
statistics of means over subsets, and nothing has to be searched.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from seatrial.stats.estimates import Cluster, gathered

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EXACT_UP_TO = 20
"""A million ways to flip this many signs are counted; of more, some are drawn."""

RESAMPLES = 100_000
MANY_RESAMPLES = 20_000
"""For more than `MANY` differences, since a leaderboard of 20 agents has 190 pairs."""

MANY = 1_000

ROUNDING = 1e-12
"""No two rewards differ by so little, and their means only since floats are rounded: that of 0.1, 0.2 and 0.3 is not
quite that of 0.2, 0.2 and 0.2.
"""

TOLERANCE = 1e-12
"""A p-value that is larger than a level by less than this is as large: 1 - 0.9 is a little less than 0.1."""

_ALIKE = 256
"""Of so many equal differences it is faster to draw how many flip than which."""


def is_told_apart(p_value: float, alpha: float) -> bool:
    """Whether a p-value is small enough; one that equals `alpha`, but for rounding, is."""
    return p_value <= alpha + TOLERANCE


def fewest_tasks(alpha: float) -> int:
    """With fewer tasks nothing is ever found: all of them won is a p-value of 2 to the power of 1 - tasks."""
    return math.ceil(1.0 - math.log2(alpha + TOLERANCE))


def least_p_value(units: int) -> float:
    """The smallest p-value that so many tasks, or clusters, can have: that of all of them won, or all lost."""
    return min(1.0, 2.0 ** (1 - units))


def draws_of(differing: int) -> int:
    """How often signs are drawn for so many differences that are not 0; 0 where all ways to flip them are counted."""
    if differing <= EXACT_UP_TO:
        return 0
    return RESAMPLES if differing <= MANY else MANY_RESAMPLES


def differing_of(differences: Sequence[float], clusters: Sequence[Hashable] | None = None) -> int:
    """How many tasks, or clusters, differ; only these can show which agent is better."""
    return len(_split(gathered(differences, clusters))[0])


def sign_flip(
    differences: Sequence[float], seed: int = 0, clusters: Sequence[Hashable] | None = None
) -> tuple[float, Literal["exact", "monte_carlo"]]:
    """The p-value of no difference: how often the mean is as far from 0 when every sign is left to a coin.

    Those with the same name in `clusters` flip together. Neither their order nor who is compared with whom changes it.
    """
    differing, _ = _split(_oriented(gathered(differences, clusters))[0])
    if not differing:
        return 1.0, "exact"
    totals = [total for total, _ in differing]
    total, rounding = math.fsum(totals), ROUNDING * math.fsum(map(abs, totals))
    flipped, _ = _subsets(totals, seed)
    hits = abs(total - 2.0 * flipped) >= abs(total) - 2.0 * rounding
    return float(hits.mean()), "monte_carlo" if draws_of(len(differing)) else "exact"


def difference_interval(
    differences: Sequence[float], alpha: float, seed: int = 0, clusters: Sequence[Hashable] | None = None
) -> tuple[float, float]:
    """Where the mean difference over all tasks lies, from -1 to 1: each shift that the test at `alpha` does not reject.

    Two samples show nothing of how tasks vary, and the test would take that for certainty. Where fewer tasks differ
    than could ever show a difference, the interval is what the shares of tasks won and lost can be (Clopper and
    Pearson). Where all differ alike, as many tasks as a sample of this size can miss may be ties. Neither moves an end
    of the interval over 0. Of fewer tasks than could ever show a difference it is -1 to 1.
    """
    units, sign = _oriented(gathered(differences, clusters))
    fewest = fewest_tasks(alpha)
    if len(units) < fewest:
        return -1.0, 1.0
    differing, ties = _split(units)
    total, count = math.fsum(total for total, _ in units), math.fsum(size for _, size in units)
    mean = total / count
    if len(differing) < fewest:
        alike = as_many_alike(units)
        won, lost = (sum(side * each > 0 for each, _ in differing) for side in (1, -1))
        bounds = -share_at_most(lost, alike, alpha / 2.0), share_at_most(won, alike, alpha / 2.0)
    elif max(each / size for each, size in units) - min(each / size for each, size in units) <= ROUNDING:
        missed = abs(mean) * share_at_most(0, as_many_alike(units), alpha / 2.0)
        bounds = mean - missed, mean + missed
    else:
        bounds = _inverted(differing, ties, alpha, seed)
    low, high = max(-1.0, min(bounds[0], mean)), min(1.0, max(bounds[1], mean))
    return (low, high) if sign > 0 else (-high, -low)


def as_many_alike(units: Sequence[Cluster]) -> int:
    """How many clusters of one size say as much as these, at least 1."""
    count = math.fsum(size for _, size in units)
    return max(1, math.floor(count**2 / math.fsum(size**2 for _, size in units) + TOLERANCE))


def share_at_most(seen: int, drawn: int, chance: float) -> float:
    """The share of all tasks at which `drawn` ones have `seen` of that kind, or fewer, with this chance.

    It is the upper bound of Clopper and Pearson.
    """
    low, high = 0.0, 1.0
    for _ in range(60 if seen < drawn else 0):
        share = (low + high) / 2.0
        tail = math.fsum(
            math.comb(drawn, each) * share**each * (1.0 - share) ** (drawn - each) for each in range(seen + 1)
        )
        low, high = (share, high) if tail > chance else (low, share)
    return high


def _oriented(units: Sequence[Cluster]) -> tuple[list[Cluster], int]:
    """The units in an order of their own, with 1; or mirrored, with -1: the same whoever is compared with whom."""
    sound = [(float(total) if abs(total) > ROUNDING else 0.0, size) for total, size in units]
    given, mirrored = sorted(sound), sorted((-total, size) for total, size in sound)
    return (given, 1) if given >= mirrored else (mirrored, -1)


def _split(units: Sequence[Cluster]) -> tuple[list[Cluster], list[Cluster]]:
    """Those that differ, and ties."""
    return [each for each in units if abs(each[0]) > ROUNDING], [each for each in units if abs(each[0]) <= ROUNDING]


def _inverted(differing: Sequence[Cluster], ties: Sequence[Cluster], alpha: float, seed: int) -> tuple[float, float]:
    """Order statistics of the means of subsets. Signs of those that differ are the ones that gave the p-value."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only comparisons need it

    values = [complex(*each) for each in (*differing, *ties)]
    if len(values) <= EXACT_UP_TO:
        chosen = _enumerated(values)
    else:
        chosen, rng = _subsets(values[: len(differing)], seed)
        if len(differing) <= EXACT_UP_TO:
            chosen = np.tile(chosen, max(1, RESAMPLES // len(chosen)))  # each with ties of its own
        chosen = chosen + _drawn(values[len(differing) :], rng, len(chosen))
    every = sum(values)
    rounding = ROUNDING * math.fsum(abs(total) for total, _ in differing)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = [np.where(abs(some.real) <= rounding, 0.0, some.real) / some.imag for some in (chosen, every - chosen)]
    none_or_all = (chosen.imag == 0.0) | (chosen.imag == every.imag)  # no flip: as far from each shift as what was seen
    least = np.where(none_or_all, -np.inf, np.minimum(*means))
    most = np.where(none_or_all, np.inf, np.maximum(*means))
    rejected = math.floor((alpha + TOLERANCE) * len(chosen))
    return float(np.partition(least, rejected)[rejected]), float(-np.partition(-most, rejected)[rejected])


# Subsets as sums of their members: floats, or complex numbers where the sizes are to be added up too.


def _subsets(values: Sequence[Any], seed: int) -> "tuple[NDArray[Any], np.random.Generator]":
    """The sums of subsets, of which the first is empty: all but mirror images, or as many as are drawn by the seed."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only comparisons need it

    rng = np.random.default_rng(seed)
    if draws := draws_of(len(values)):
        return np.concatenate((np.zeros(1, dtype=type(values[0])), _drawn(values, rng, draws))), rng
    return _enumerated(values), rng


def _enumerated(values: Sequence[Any]) -> "NDArray[Any]":
    """Half of all ways are enough, those without the first: the other half mirrors them."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only comparisons need it

    sums = np.zeros(1, dtype=type(values[0]))
    for value in values[1:]:
        sums = np.concatenate((sums, sums + value))
    return sums


def _drawn(values: Sequence[Any], rng: "np.random.Generator", draws: int) -> "NDArray[Any]":
    """Eight coins are one random byte, and the sums of subsets of eight values by that byte a table of 256."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only comparisons need it

    sums: NDArray[Any] = np.zeros(draws, dtype=type(values[0]) if values else float)
    single: list[Any] = []
    for value, many in Counter(values).items():
        if many > _ALIKE:
            sums += value * rng.binomial(many, 0.5, size=draws)
        else:
            single += [value] * many
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    padded = np.zeros(-(-len(single) // 8) * 8, dtype=sums.dtype)
    padded[: len(single)] = single
    for table in padded.reshape(-1, 8) @ bits.T:
        sums += np.take(table, np.frombuffer(rng.bytes(draws), dtype=np.uint8))
    return sums
