"""Intervals for `benchmarks.coverage`, for many runs at once: ours, as the project has it, and others."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.coverage_populations import Counts, Numbers
from seatrial.stats.estimates import ADDED_AT_EACH_END, student_t
from seatrial.stats.sign_flips import ROUNDING, fewest_tasks, share_at_most

LEVEL, ALPHA = 0.95, 0.05
EXACT = 10
FLIPS = 999
"""Subsets that are drawn for more tasks than that."""

Z = 1.959963984540054
RESAMPLES = 200
FEWER_RUNS = 500
"""Runs for methods that are far off, and slow."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Means of tasks, runs by tasks, with how many trials each has. Families of these sizes follow each other."""

    means: Numbers
    counts: Counts
    sizes: Counts
    limits: tuple[float, float] = (0.0, 1.0)

    @property
    def totals(self) -> Numbers:
        """What the means of each family add up to."""
        if self.sizes.max() == 1:
            return self.means
        starts = np.concatenate(([0], np.cumsum(self.sizes)[:-1]))
        return np.asarray(np.add.reduceat(self.means, starts, axis=1))


Bounds = tuple[Numbers, Numbers]
Method = Callable[[Sample, np.random.Generator], Bounds]


def ours(sample: Sample, _: np.random.Generator) -> Bounds:
    """What `stats.estimates` does for means."""
    return added_tasks(sample, ADDED_AT_EACH_END)


def pseudo_tasks(sample: Sample, _: np.random.Generator) -> Bounds:
    """For differences: one task and a half more that is won, and as much that is lost."""
    return added_tasks(sample, 1.5)


def added_tasks(sample: Sample, added: float) -> Bounds:
    """Student's interval with so many clusters more at each end of the range, reaching as far from the mean itself."""
    sizes, (least, most) = sample.sizes, sample.limits
    size = float((sizes**2).sum() / sizes.sum())
    count, clusters = sizes.sum() + 2 * added * size, len(sizes) + round(2 * added)
    mean = sample.means.mean(axis=1)
    middle = (sample.means.sum(axis=1) + added * size * (least + most)) / count
    squares = ((sample.totals - sizes * middle[:, None]) ** 2).sum(axis=1)
    squares += added * size**2 * ((least - middle) ** 2 + (most - middle) ** 2)
    reach = student_t(LEVEL, clusters - 1) * np.sqrt(clusters / (clusters - 1) * squares) / count
    return np.maximum(least, np.minimum(mean, middle) - reach), np.minimum(most, np.maximum(mean, middle) + reach)


def sign_flips(sample: Sample, rng: np.random.Generator) -> Bounds:
    """What `stats.sign_flips` does for differences, with the same subsets for all runs; fewer, where they are drawn."""
    return _bounds(sample, rng, guarded=True)


def plain_inversion(sample: Sample, rng: np.random.Generator) -> Bounds:
    """The same without the two cases in which a sample shows nothing of how tasks vary."""
    return _bounds(replace(sample, means=sample.means[:FEWER_RUNS]), rng, guarded=False)


def _bounds(sample: Sample, rng: np.random.Generator, *, guarded: bool) -> Bounds:
    values, tasks = sample.means, sample.means.shape[1]
    if tasks <= EXACT:
        ways = np.arange(2 ** (tasks - 1))[:, None] >> np.arange(tasks) & 1
    else:
        ways = np.concatenate((np.zeros((1, tasks), dtype=np.int64), rng.integers(0, 2, (FLIPS, tasks))))
    chosen, counts = ways @ values.T, ways.sum(axis=1)[:, None].astype(np.float64)
    empty = (counts == 0) | (counts == tasks)
    with np.errstate(divide="ignore", invalid="ignore"):
        means = chosen / counts, (values.sum(axis=1) - chosen) / (tasks - counts)
    rejected = math.floor(ALPHA * len(ways) + ROUNDING)
    least, most = np.where(empty, -np.inf, np.minimum(*means)), np.where(empty, -np.inf, -np.maximum(*means))
    low, high = (np.partition(each, rejected, axis=0)[rejected] for each in (least, most))
    return _guard(values, low, -high) if guarded else (np.maximum(low, -1.0), np.minimum(-high, 1.0))


def _guard(values: Numbers, low: Numbers, high: Numbers) -> Bounds:
    """Where fewer tasks differ than can show a difference, or all differ alike."""
    tasks, mean, fewest = values.shape[1], values.mean(axis=1), fewest_tasks(ALPHA)
    won, lost = ((side * values > ROUNDING).sum(axis=1) for side in (1, -1))
    shares = np.array([share_at_most(seen, tasks, ALPHA / 2) for seen in range(fewest)])
    alike = np.ptp(values, axis=1) <= ROUNDING
    low, high = (np.where(alike, mean + side * abs(mean) * shares[0], each) for side, each in ((-1, low), (1, high)))
    few = won + lost < fewest
    low = np.where(few, -shares[np.minimum(lost, fewest - 1)], low)
    high = np.where(few, shares[np.minimum(won, fewest - 1)], high)
    return np.maximum(-1.0, np.minimum(low, mean)), np.minimum(1.0, np.maximum(high, mean))


def ours_without_families(sample: Sample, rng: np.random.Generator) -> Bounds:
    """As if tasks of one family had nothing in common."""
    alone = np.ones(sample.means.shape[1], dtype=np.int64)
    return ours(Sample(sample.means, sample.counts, alone, sample.limits), rng)


def student(sample: Sample, _: np.random.Generator) -> Bounds:
    """Student's interval over the means of tasks, or families."""
    mean = sample.means.mean(axis=1)
    reach = student_t(LEVEL, len(sample.sizes) - 1) * _error(sample)
    return mean - reach, mean + reach


def bonett_price(sample: Sample, _: np.random.Generator) -> Bounds:
    """For differences: one task more that is won and one that is lost."""
    ends = np.tile(np.array(sample.limits), (len(sample.means), 1))
    padded = np.concatenate((sample.means, ends), axis=1)
    return student(Sample(padded, sample.counts, np.ones(padded.shape[1], dtype=np.int64)), np.random.default_rng())


def wilson_all_trials(sample: Sample, _: np.random.Generator) -> Bounds:
    """Wilson's interval over all trials, whichever task they belong to."""
    count = sample.counts.sum(axis=1).astype(np.float64)
    return _wilson((sample.means * sample.counts).sum(axis=1) / count, count)


def wilson_effective(sample: Sample, _: np.random.Generator) -> Bounds:
    """Wilson's interval with as many trials as have the variance that is seen between tasks."""
    mean, clusters = np.clip(sample.means.mean(axis=1), 0.0, 1.0), len(sample.sizes)
    variance = _error(sample) ** 2
    some = np.where(variance > 1e-18, variance, 1.0)
    count = np.minimum(sample.counts.sum(axis=1), mean * (1 - mean) / some) * (Z / student_t(LEVEL, clusters - 1)) ** 2
    return _wilson(mean, np.where(variance > 1e-18, count, clusters))


def bootstrap(sample: Sample, rng: np.random.Generator) -> Bounds:
    """The percentiles of means of tasks, or families, drawn again; the same draws for all runs."""
    clusters = len(sample.sizes)
    drawn = rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(np.float64)
    means = (drawn @ sample.totals[:FEWER_RUNS].T) / (drawn @ sample.sizes)[:, None]
    means.sort(axis=0)
    edge = round(RESAMPLES * (1 - LEVEL) / 2)
    return means[edge], means[-1 - edge]


def _error(sample: Sample) -> Numbers:
    clusters, tasks = len(sample.sizes), sample.means.shape[1]
    mean = sample.means.mean(axis=1)
    squares = ((sample.totals - sample.sizes * mean[:, None]) ** 2).sum(axis=1)
    return np.asarray(np.sqrt(clusters / (clusters - 1) * squares) / tasks)


def _wilson(mean: Numbers, count: Numbers) -> Bounds:
    middle = (mean + Z**2 / (2 * count)) / (1 + Z**2 / count)
    reach = Z / (1 + Z**2 / count) * np.sqrt(mean * (1 - mean) / count + Z**2 / (4 * count**2))
    return middle - reach, middle + reach
