"""What comparisons can be expected to find: by the interval of so many tasks, before there are any.

A difference is believed where the test and the interval both speak for it, and gates look at the interval alone. The
textbook's formulas of `stats.power` are about the test. The interval has clusters added (`stats.estimates`), and where
tasks hardly differ, or are few, these are nearly all of its width. `split_variance` tells where differences come from.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

from seatrial.stats import power as textbook
from seatrial.stats.estimates import added_at_each_end, gathered, student_t
from seatrial.stats.power import ALPHA, POWER

NEVER = 2.0
"""A difference that no two agents have."""

_DIFFERENCES = (-1.0, 1.0)
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


def expected_interval(
    sample: Sample, mean: float, limits: tuple[float, float] = _DIFFERENCES, level: float = 0.95
) -> tuple[float, float]:
    """The interval that `spread_of` gives values like these if their mean is this one, though it may leave `limits`."""
    added, (least, most), alike = added_at_each_end(limits), limits, sample.alike
    middle = (alike * mean + added * (least + most)) / (alike + 2 * added)
    ends = added * ((least - middle) ** 2 + (most - middle) ** 2)
    seen = alike * sample.variance * (sample.clusters - 1) / sample.clusters
    number = sample.clusters + 2 * added
    squares = seen + alike * (mean - middle) ** 2 + ends
    error = math.sqrt(number / (number - 1) * squares) / (alike + 2 * added)
    reach = student_t(level, max(1, math.floor(number - 1))) * error
    return min(mean, middle) - reach, max(mean, middle) + reach


def detectable(sample: Sample, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference that test and interval find so often with a sample like this; NEVER where none is."""
    tested = textbook.detectable(math.sqrt(sample.variance), sample.alike, alpha, power)
    if not _decides(sample, NEVER, alpha, power):
        return NEVER
    return max(tested, _least(lambda difference: _decides(sample, difference, alpha, power), NEVER))


def needed_tasks(difference: float, sd: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """How many tasks it takes for test and interval to find a difference so often. Raises ValueError for none."""
    tested = textbook.needed_tasks(difference, sd, alpha, power)
    return _fewest(lambda tasks: _decides(Sample(tasks, tasks, sd**2), abs(difference), alpha, power), tested)


def needed_attempts(
    difference: float, tasks: int, between: float, within: float, alpha: float = ALPHA, power: float = POWER
) -> NeededAttempts:
    """How many attempts it takes for test and interval to find a difference so often with so many tasks.

    `between` is the variance of the true differences of tasks, which attempts do not change, and `within` what one
    attempt of each agent adds to it by chance.
    """

    def found(attempts: int) -> bool:
        return detectable(Sample(tasks, tasks, between + within / attempts), alpha, power) <= difference

    enough = _fewest(found, 1) if found(_MOST) else None
    return NeededAttempts(enough, detectable(Sample(tasks, tasks, between), alpha, power))


def needed_for_margin(
    sample: Sample, difference: float, margin: float, alpha: float = ALPHA, power: float = POWER
) -> float | None:
    """How many times as many as these decide so often whether a difference is above or below -margin, if it is this
    one; None where no number does that one could have.
    """
    ratio = 1.0
    while not _decides(sample.times(ratio), difference, alpha, power, margin):
        ratio *= 2.0
        if sample.alike * ratio > _MOST:
            return None
    return _least(lambda some: _decides(sample.times(some), difference, alpha, power, margin), ratio)


def _decides(sample: Sample, difference: float, alpha: float, power: float, margin: float = 0.0) -> bool:
    """Whether the interval lies so often wholly above -margin, or wholly below, wherever the difference is."""
    if difference + margin < 0.0:
        return _decides(sample, -difference, alpha, power, -margin)
    low, _ = expected_interval(sample, difference, level=1.0 - alpha)
    chance = math.sqrt(sample.variance / sample.alike)
    if difference > 0.0:  # then it is the middle that the interval reaches down from, and this one varies less
        chance *= sample.alike / (sample.alike + 2 * added_at_each_end(_DIFFERENCES))
    return low + margin >= NormalDist().inv_cdf(power) * chance and difference + margin > 0.0


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
