"""Populations of tasks for `benchmarks.coverage`: what is drawn from them, and what it is on average."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
Draw = Callable[[np.random.Generator, Counts], Numbers]
"""The means of tasks, from how many trials each has: an array of runs by tasks."""

MEANS = (0.05, 0.2, 0.5, 0.8, 0.9, 0.95, 0.97)
TESTS = 4


@dataclass(frozen=True, slots=True)
class Population:
    """Tasks one could have taken. The mean of all of them is `truth`."""

    name: str
    truth: float
    draw: Draw


def beta(rng: np.random.Generator, mean: float, concentration: float, shape: tuple[int, ...]) -> Numbers:
    """How good an agent is at each task: at 0.5 nearly always or nearly never, at 4 anything, at infinity the same."""
    if math.isinf(concentration):
        return np.full(shape, mean)
    return rng.beta(mean * concentration, (1 - mean) * concentration, shape)


def binary(mean: float, concentration: float, worth: tuple[float, float] = (0.0, 1.0), tests: int = 1) -> Draw:
    """Every trial has one of two rewards, or the share of its tests that pass."""
    least, most = worth

    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        chance = beta(rng, mean, concentration, counts.shape)
        return least + (most - least) * rng.binomial(counts * tests, chance) / (counts * tests)

    return draw


def all_or_nothing(mean: float, worth: float = 1.0) -> Draw:
    """Every trial of a task ends the same way."""
    return lambda rng, counts: np.where(rng.random(counts.shape) < mean, worth, 0.0)


def mixed(never: float, flaky: float, chance: float) -> Draw:
    """Some tasks that are never solved, some that are solved now and then, and the others always."""

    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        kind = rng.random(counts.shape)
        rates = np.where(kind < never, 0.0, np.where(kind < never + flaky, chance, 1.0))
        return rng.binomial(counts, rates) / counts

    return draw


def few_high(share: float, chance: float) -> Draw:
    """Most tasks are worth 0; a few 0.5 to 1, in those trials that work."""

    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        worth = np.where(rng.random(counts.shape) < share, rng.uniform(0.5, 1.0, counts.shape), 0.0)
        return worth * rng.binomial(counts, chance) / counts

    return draw


def mirrored(draw: Draw) -> Draw:
    """Successes are failures."""
    return lambda rng, counts: 1.0 - draw(rng, counts)


def populations() -> Iterator[Population]:
    """All of them, with values from 0 to 1."""
    yield from _by_mean()
    yield from _skewed()


def _by_mean() -> Iterator[Population]:
    for mean in MEANS:
        for concentration in (0.5, 4.0, math.inf):
            yield Population(f"binary {mean}, beta {concentration:g}", mean, binary(mean, concentration))
        yield Population(f"all or nothing {mean}", mean, all_or_nothing(mean))
        yield Population(f"share of {TESTS} tests {mean}", mean, binary(mean, 2.0, tests=TESTS))


def _skewed() -> Iterator[Population]:
    for share in (0.05, 0.1, 0.2):
        for chance in (0.5, 1.0):
            draw, truth = few_high(share, chance), share * 0.75 * chance
            yield Population(f"mostly 0, {share} high, work {chance:g}", truth, draw)
            yield Population(f"mostly 1, {share} low, work {chance:g}", 1 - truth, mirrored(draw))
    for least, share in ((0.5, 0.5), (0.5, 0.9), (0.5, 0.97), (0.9, 0.8)):
        worth = (least, 1.0)
        yield Population(f"{least} or 1, {share} are 1", least + (1 - least) * share, binary(share, 2.0, worth))
    for worth_of_most in (0.5, 0.7, 0.9):
        for rare in (0.02, 0.05):
            draw = all_or_nothing(1 - rare, worth_of_most)
            yield Population(f"{worth_of_most}, but {rare} are 0", worth_of_most * (1 - rare), draw)
    for never, flaky, chance in ((0.05, 0.05, 0.8), (0.03, 0.1, 0.9), (0.03, 0.3, 0.98)):
        truth = 1 - never - flaky * (1 - chance)
        yield Population(f"{never} never, {flaky} flaky {chance}", truth, mixed(never, flaky, chance))


def differences() -> Iterator[Population]:
    """Differences of two agents by task; `draw` has values from -1 to 1."""
    pairs = ((0, 0), (0.01, 0), (0.03, 0), (0.1, 0), (0.03, 0.01), (0.1, 0.05), (0.3, 0.3), (0.5, 0.2), (0.95, 0))
    for won, lost in pairs:
        yield Population(f"won {won}, lost {lost}, else the same", won - lost, _won_or_lost(won, lost))
    for first, second in ((0.5, 0.55), (0.9, 0.95), (0.95, 0.97), (0.2, 0.3)):
        for concentration in (0.5, 4.0):
            name = f"{first} and {second}, beta {concentration:g}"
            yield Population(f"unrelated {name}", second - first, _unrelated(first, second, concentration))
            yield Population(f"related {name}", second - first, _related(first, second, concentration))
    for shift, width, share in (
        (0.02, 0.01, 1.0),
        (0.3, 0.01, 1.0),
        (0.1, 0.1, 0.5),
        (0.1, 0.1, 0.1),
        (0.5, 0.1, 0.03),
    ):
        yield Population(f"{share} of tasks by {shift} ± {width}", shift * share, _shifted(shift, width, share))


def _won_or_lost(won: float, lost: float) -> Draw:
    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        luck = rng.random(counts.shape)
        return np.where(luck < won, 1.0, np.where(luck < won + lost, -1.0, 0.0))

    return draw


def _unrelated(first: float, second: float, concentration: float) -> Draw:
    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        return binary(second, concentration)(rng, counts) - binary(first, concentration)(rng, counts)

    return draw


def _related(first: float, second: float, concentration: float) -> Draw:
    """The second is better at every task, by the same share of what is missing."""
    share = (second - first) / (1 - first)

    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        chance = beta(rng, first, concentration, counts.shape)
        better = chance + share * (1 - chance)
        return (rng.binomial(counts, better) - rng.binomial(counts, chance)) / counts

    return draw


def _shifted(shift: float, width: float, share: float) -> Draw:
    def draw(rng: np.random.Generator, counts: Counts) -> Numbers:
        moved = rng.uniform(shift - width, shift + width, counts.shape)
        return np.where(rng.random(counts.shape) < share, moved, 0.0)

    return draw
