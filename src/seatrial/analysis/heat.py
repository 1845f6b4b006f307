"""The matrix of tasks and arms: what each arm got at each task, in an order in which patterns are seen."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.analysis.arms import Arm


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One arm at one task. `mean` is over the scored trials, None where none was.

    Of `planned` trials, so many are `finished`, `scored` and `passed`. Nothing was planned where the arm's job does not
    have the task, or left it out for the agent.
    """

    mean: float | None
    passed: int
    scored: int
    finished: int
    planned: int


@dataclass(frozen=True, slots=True)
class HeatMap:
    """`cells` has a row for each task, with a cell for each arm. The best arm and the easiest task come first."""

    tasks: tuple[str, ...]
    arms: tuple[Arm, ...]
    cells: tuple[tuple[HeatCell, ...], ...]

    @property
    def task_means(self) -> tuple[float | None, ...]:
        """The mean of each task over the arms that were judged on it, None where none was."""
        return tuple(_mean([cell.mean for cell in row]) for row in self.cells)


def heat_map(arms: Sequence[Arm]) -> HeatMap:
    """The matrix of all tasks of these arms. Whatever was never judged comes last; equals are in order of name."""
    ordered = sorted(arms, key=lambda arm: _order(arm.tally.mean, arm.label))
    columns = [_column(arm) for arm in ordered]
    names = {task for column in columns for task in column}
    nothing = HeatCell(None, 0, 0, 0, 0)
    rows = {name: tuple(column.get(name, nothing) for column in columns) for name in names}
    tasks = sorted(names, key=lambda name: _order(_mean([cell.mean for cell in rows[name]]), name))
    return HeatMap(tuple(tasks), tuple(ordered), tuple(rows[task] for task in tasks))


def _column(arm: Arm) -> dict[str, HeatCell]:
    """What an arm got at each task it was asked to do, or did."""
    planned = arm.planned_tasks
    finished = Counter(trial.task_id for trial in arm.trials)
    cells = {}
    for task in {**planned, **finished}:
        scored, passed = arm.attempts.get(task, (0, 0))
        mean = _mean(arm.rewards.get(task, ()))
        cells[task] = HeatCell(mean, passed, scored, finished[task], planned.get(task, 0))
    return cells


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _order(mean: float | None, name: str) -> tuple[bool, float, str]:
    return mean is None, -(mean or 0.0), name
