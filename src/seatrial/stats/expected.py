"""What comparisons can be expected to find with so many tasks, before there are any.

By the sign-flip test of `sign_flips.py`, whose interval agrees with it. It finds what Student's test finds, but for few
tasks, whose p-values are coarse; of many tasks that is the textbook's difference of 2.80 standard errors.
`split_variance` has where differences come from.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from seatrial.stats.estimates import ADDED_AT_EACH_END, gathered, student_t
from seatrial.stats.sign_flips import TOLERANCE, fewest_tasks

ALPHA = 0.05
POWER = 0.8

NEVER = 2.0
"""A difference that no two agents have."""

_FINE = 60
"""With so many clusters p-values are as fine as floats."""

_HALVINGS = 50
_MOST = 2**62


@dataclass(frozen=True, slots=True)
class NeededAttempts:
    """How many attempts at each task it takes, None where no number is enough.

    However many there are, no difference below `floor` is found: tasks differ too much, or are too few.
    """

    attempts: int | None
    floor: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Values in so many `clusters`, which say as much as `alike` ones of one size with this `variance`."""

    clusters: float
    alike: float
    variance: float

    def times(self, ratio: float) -> "Sample":
        """So many times as many of the same kind."""
        return Sample(self.clusters * ratio, self.alike * ratio, self.variance)


def sample_of(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Sample:
    """What one value or more have shown. Values with the same name in `clusters` belong together."""
    seen = gathered(values, clusters)
    total, count = (math.fsum(column) for column in zip(*seen, strict=True))
    size = math.fsum(each**2 for _, each in seen) / count
    squares = math.fsum((each - number * total / count) ** 2 for each, number in seen)
    freedom = max(1, len(seen) - 1)
    return Sample(len(seen), count / size, len(seen) / freedom * squares / (size * count))


def expected_interval(sample: Sample, mean: float, level: float = 0.95) -> tuple[float, float]:
    """The interval that `spread_of` gives values like these if their mean is this one, though it may leave 0 to 1."""
    added, alike = ADDED_AT_EACH_END, sample.alike
    middle = (alike * mean + added) / (alike + 2 * added)
    ends = added * (middle**2 + (1.0 - middle) ** 2)
    seen = alike * sample.variance * (sample.clusters - 1) / sample.clusters
    number = sample.clusters + 2 * added
    squares = seen + alike * (mean - middle) ** 2 + ends
    error = math.sqrt(number / (number - 1) * squares) / (alike + 2 * added)
    reach = student_t(level, max(1, math.floor(number - 1))) * error
    return min(mean, middle) - reach, max(mean, middle) + reach


def detectable(sample: Sample, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference that is found so often with a sample like this; NEVER where none is."""
    if sample.clusters < fewest_tasks(alpha):
        return NEVER
    ways = 2.0 ** (min(math.floor(sample.clusters), _FINE) - 1)
    reached = math.floor((alpha + TOLERANCE) * ways) / ways  # few tasks have only so many p-values
    freedom = max(1, math.floor(sample.clusters) - 1)
    errors = student_t(1.0 - reached, freedom) + student_t(2.0 * power - 1.0, freedom)
    return min(NEVER, errors * math.sqrt(sample.variance / sample.alike))


def needed_tasks(difference: float, sd: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """How many tasks it takes to find a difference so often. Raises ValueError for none."""
    if difference == 0.0:
        raise ValueError("the difference is 0, expected another number: no number of tasks shows that")
    start = fewest_tasks(alpha)
    return _fewest(lambda tasks: detectable(Sample(tasks, tasks, sd**2), alpha, power) <= abs(difference), start)


def needed_attempts(
    difference: float, tasks: int, between: float, within: float, alpha: float = ALPHA, power: float = POWER
) -> NeededAttempts:
    """How many attempts it takes to find a difference so often with so many tasks.

    `between` is the variance of the true differences of tasks, which attempts do not change, and `within` what one
    attempt of each agent adds to it by chance.
    """

    def found(attempts: int) -> bool:
        return detectable(Sample(tasks, tasks, between + within / attempts), alpha, power) <= difference

    enough = _fewest(found, 1) if found(_MOST) else None
    return NeededAttempts(enough, detectable(Sample(tasks, tasks, between), alpha, power))


def needed_for_margin(sample: Sample, distance: float, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """How many times as many as these decide so often on which side of a margin a difference is that is so far from
    it; None where no number does that one could have.
    """
    ratio = 1.0
    while detectable(sample.times(ratio), alpha, power) > distance:
        ratio *= 2.0
        if sample.alike * ratio > _MOST:
            return None
    return _least(lambda some: detectable(sample.times(some), alpha, power) <= distance, ratio)


def _least(holds: Callable[[float], bool], enough: float) -> float:
    """The smallest number from 0 on at which it holds, as it does at `enough` and beyond."""
    low, high = 0.0, enough
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if middle and holds(middle) else (middle, high)
    return high


def _fewest(holds: Callable[[int], bool], start: int) -> int:
    """The smallest whole number from `start` on at which it holds, as it does beyond."""
    high = start
    while not holds(high) and high < _MOST:
        high *= 2
    low = max(start, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


# Where differences between rewards come from: tasks, the agent from trial to trial, or the verifier. Estimated without
# bias by comparing mean squares level by level (nested analysis of variance, unequal sizes allowed).

Part = Literal["between", "within", "verifier"]
Trial = Sequence[float]
"""The verdicts on one output, most often a single one."""


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """The variance of a verdict in three parts, each None where nothing was repeated that would show it.

    `between` tasks, `within` a task from trial to trial, and of the `verifier` on one and the same output. A part that
    is None is contained in the one before. Those in `truncated` were estimated below 0 and are therefore 0: noise
    explains all that was seen of them.
    """

    between: float | None
    within: float | None
    verifier: float | None
    truncated: tuple[Part, ...]
    tasks: int
    trials: int
    verdicts: int


@dataclass(frozen=True, slots=True)
class _Level:
    """A mean square above the verdicts. It is expected to be `verifier + shares · within + own · (its variance)`."""

    square: float
    shares: float
    own: float


def split_variance(tasks: Sequence[Sequence[Trial]]) -> VarianceSplit:
    """The parts of the variance of verdicts, given task by task and trial by trial; empty ones do not count."""
    kept = [[list(trial) for trial in task if trial] for task in tasks]
    kept = [task for task in kept if task]
    trials = sum(len(task) for task in kept)
    verdicts = sum(len(trial) for task in kept for trial in task)
    noise = _verdict_square(kept, verdicts - trials) if verdicts > trials else None
    middle = _trial_level(kept, trials - len(kept)) if trials > len(kept) else None
    top = _task_level(kept, verdicts) if len(kept) > 1 else None
    within = (middle.square - (noise or 0.0)) / middle.own if middle else None
    between = (top.square - (noise or 0.0) - top.shares * (within or 0.0)) / top.own if top else None
    found: list[tuple[Part, float | None]] = [("between", between), ("within", within)]
    truncated = tuple(part for part, value in found if value is not None and value < 0.0)
    return VarianceSplit(_positive(between), _positive(within), noise, truncated, len(kept), trials, verdicts)


def _positive(value: float | None) -> float | None:
    return None if value is None else max(0.0, value)


def _verdict_square(tasks: list[list[list[float]]], freedom: int) -> float:
    return math.fsum(_squares(trial, _mean(trial)) for task in tasks for trial in task) / freedom


def _trial_level(tasks: list[list[list[float]]], freedom: int) -> _Level:
    means = [_mean(_flat(task)) for task in tasks]  # once for each task, which may have thousands of trials
    squares = math.fsum(
        len(trial) * (_mean(trial) - mean) ** 2 for task, mean in zip(tasks, means, strict=True) for trial in task
    )
    return _Level(squares / freedom, 0.0, (sum(len(_flat(task)) for task in tasks) - _shared(tasks)) / freedom)


def _task_level(tasks: list[list[list[float]]], verdicts: int) -> _Level:
    freedom = len(tasks) - 1
    mean = math.fsum(verdict for task in tasks for verdict in _flat(task)) / verdicts
    sizes = [len(_flat(task)) for task in tasks]
    squares = math.fsum(size * (_mean(_flat(task)) - mean) ** 2 for size, task in zip(sizes, tasks, strict=True))
    trial_sizes = math.fsum(len(trial) ** 2 for task in tasks for trial in task)
    return _Level(
        square=squares / freedom,
        shares=(_shared(tasks) - trial_sizes / verdicts) / freedom,
        own=(verdicts - math.fsum(size**2 for size in sizes) / verdicts) / freedom,
    )


def _shared(tasks: list[list[list[float]]]) -> float:
    """How much of each task hangs on each of its trials, added up."""
    return math.fsum(math.fsum(len(trial) ** 2 for trial in task) / len(_flat(task)) for task in tasks)


def _flat(task: list[list[float]]) -> list[float]:
    return [verdict for trial in task for verdict in trial]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float], mean: float) -> float:
    return math.fsum((value - mean) ** 2 for value in values)
