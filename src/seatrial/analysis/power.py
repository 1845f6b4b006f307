"""How many tasks or attempts a comparison takes, from what a job has shown of its own variance.

The variance of a task's difference has a part that attempts do not change, since tasks differ, and a part that is
chance from attempt to attempt. Where a job has two agents, both parts are taken from their differences. Of one agent
another one is assumed that varies as much, on its own: the worst case, unless a correlation is given.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import harmonic_mean
from typing import Literal

from seatrial.analysis.arms import Arm
from seatrial.analysis.compare import compare_arms
from seatrial.errors import JobError
from seatrial.stats.expected import (
    NeededAttempts,
    Sample,
    VarianceSplit,
    detectable,
    expected_interval,
    needed_attempts,
    needed_tasks,
    split_variance,
)
from seatrial.stats.sign_flips import fewest_tasks

Source = Literal["two agents", "one agent", "given"]


@dataclass(frozen=True, slots=True)
class DifferenceVariance:
    """How much the differences of tasks vary: `between` tasks, and `within` what one attempt of each agent adds.

    `within` is None where no task was attempted twice; it is then contained in `between`, which holds for `attempts`
    attempts and no others. `source` says where it is from.
    """

    between: float
    within: float | None
    attempts: float
    source: Source

    def sd(self, attempts: float) -> float | None:
        """The sd of differences with so many attempts at each task, None where that cannot be told."""
        if self.within is None:
            return math.sqrt(self.between) if attempts == self.attempts else None
        return math.sqrt(self.between + self.within / attempts)


@dataclass(frozen=True, slots=True)
class PlanAsked:
    """What somebody wants to know: for which difference, with how many tasks and attempts, and how sure."""

    difference: float
    tasks: int
    attempts: int
    level: float = 0.95
    power: float = 0.8

    @property
    def alpha(self) -> float:
        """How often a difference may be seen where there is none."""
        return 1.0 - self.level

    @property
    def too_few(self) -> bool:
        """Whether so few tasks show no difference, however large and with however many attempts."""
        return self.tasks < fewest_tasks(self.alpha)


@dataclass(frozen=True, slots=True)
class PowerRow:
    """What so many attempts at each task amount to; None where the job cannot tell.

    `detectable` is None also where so few tasks show nothing.
    """

    attempts: int
    sd: float | None
    needed: int | None
    detectable: float | None


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """The answers: a row for each number of attempts, and how many attempts would do with the tasks there are.

    `half_width` is that of the interval of one agent's mean, None without a job.
    """

    asked: PlanAsked
    variance: DifferenceVariance
    rows: tuple[PowerRow, ...]
    more_attempts: NeededAttempts | None
    half_width: float | None = None


def split_of(arm: Arm) -> VarianceSplit:
    """Where the differences between the rewards of an arm come from."""
    verdicts: dict[str, list[Sequence[float]]] = defaultdict(list)
    for trial in arm.scored:
        verdicts[trial.task_id].append(trial.repeats or ((trial.reward,) if trial.reward is not None else ()))
    return split_variance([*verdicts.values()])


def variance_of_two(first: Arm, second: Arm) -> DifferenceVariance:
    """As the differences of two agents on the same tasks vary. Raises JobError where fewer than two are the same."""
    compared = compare_arms(first, second)
    if compared.paired is None or compared.paired.tasks < 2:
        raise JobError(
            f"{first.label} and {second.label} have fewer than two judged tasks in common; there is no variance"
        )
    tasks = [pair.task_id for pair in compared.pairs]
    counts = [harmonic_mean([len(arm.rewards[task]) for task in tasks]) for arm in (first, second)]
    chance = [_chance(split_of(arm)) for arm in (first, second)]
    seen = compared.paired.sd**2
    if chance[0] is None or chance[1] is None:
        return DifferenceVariance(seen, None, min(counts), "two agents")
    noise = chance[0] / counts[0] + chance[1] / counts[1]
    return DifferenceVariance(max(0.0, seen - noise), chance[0] + chance[1], min(counts), "two agents")


def variance_of_one(arm: Arm, correlation: float = 0.0) -> DifferenceVariance:
    """As it would be against another agent that varies as much. Raises JobError for fewer than two judged tasks."""
    split = split_of(arm)
    if split.between is None:
        raise JobError(
            f"{arm.label} in {arm.job.path} has fewer than two judged tasks; there is no variance to plan with"
        )
    count = harmonic_mean([len(rewards) for rewards in arm.rewards.values()])
    chance = _chance(split)
    between = 2.0 * split.between * (1.0 - correlation)
    return DifferenceVariance(between, None if chance is None else 2.0 * chance, count, "one agent")


def _chance(split: VarianceSplit) -> float | None:
    """What one attempt adds by chance, of the agent and of the verifier; None where no task was attempted twice."""
    return None if split.within is None else split.within + (split.verifier or 0.0)


def plan_power(asked: PlanAsked, variance: DifferenceVariance) -> PowerPlan:
    """How many tasks it takes, and what can be seen, with one attempt, with those asked for and with more.

    Raises JobError where nothing varies: from that nothing can be planned.
    """
    if not variance.between and not variance.within:
        raise JobError("no task has another reward than the others, or another difference; plan with --sd instead")
    more_or_less = {round(variance.attempts)} if variance.within is None else {1, 2, 4, 8}
    rows = tuple(_row(asked, variance, attempts) for attempts in sorted({*more_or_less, asked.attempts}))
    more = None
    if variance.within is not None and not asked.too_few:
        more = needed_attempts(
            asked.difference, asked.tasks, variance.between, variance.within, asked.alpha, asked.power
        )
    return PowerPlan(asked, variance, rows, more)


def _row(asked: PlanAsked, variance: DifferenceVariance, attempts: int) -> PowerRow:
    sd = variance.sd(attempts)
    if sd is None:
        return PowerRow(attempts, None, None, None)
    needed = needed_tasks(asked.difference, sd, asked.alpha, asked.power)
    if asked.too_few:
        return PowerRow(attempts, sd, needed, None)
    sample = Sample(asked.tasks, asked.tasks, sd**2)
    return PowerRow(attempts, sd, needed, detectable(sample, asked.alpha, asked.power))


def half_width(arm: Arm, asked: PlanAsked) -> float | None:
    """Half the interval of one agent's mean with so many tasks and attempts; None where that cannot be told."""
    split, mean = split_of(arm), arm.figures.mean
    if split.between is None or mean is None:
        return None
    chance = _chance(split)
    if chance is None and asked.attempts * split.tasks != split.trials:
        return None
    variance = split.between + (chance or 0.0) / asked.attempts
    low, high = expected_interval(Sample(asked.tasks, asked.tasks, variance), mean, asked.level)
    return (min(1.0, high) - max(0.0, low)) / 2.0
