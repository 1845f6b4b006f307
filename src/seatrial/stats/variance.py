"""Where the differences between rewards come from: tasks, the agent from trial to trial, or the verifier.

Estimated without bias by comparing mean squares level by level (nested analysis of variance, unequal sizes allowed).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
