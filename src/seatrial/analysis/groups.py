"""Trials in groups: by their task, by what their tasks say of themselves, by who tried, or by how they ended.

A group of tasks has a row for each arm, since the mean of two agents is that of none. Groups of trials that have an
agent, a model or a job in common are across arms.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from seatrial.analysis.arms import Arm
from seatrial.analysis.figures import Figures, Trials, figures_of, mean_of
from seatrial.store.index import TrialEntry

GroupKey = Literal["task", "agent", "job", "model", "tag", "category", "difficulty", "family", "outcome"]
GROUP_KEYS: tuple[GroupKey, ...] = get_args(GroupKey)
TASK_KEYS = frozenset({"task", "tag", "category", "difficulty", "family"})
"""Groups that are made of tasks."""

SortKey = Literal["name", "mean", "pass", "cost", "time", "scored"]
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)


@dataclass(frozen=True)
class Group:
    """Trials that have something in common: `name`, which is None for those whose tasks do not say. `arm` is the label
    of theirs, None for a group across arms. `tasks` counts the tasks that are planned, whether tried or not.
    """

    name: str | None
    arm: str | None
    tasks: int
    selected: Trials
    figures: Figures


def group_trials(arms: Sequence[Arm], key: GroupKey, ks: Sequence[int] | None = None) -> list[Group]:
    """The groups of all trials of these arms, in order of name, those without one last.

    A task with several tags counts in each. With `outcome`, only trials with a record are in a group.
    """
    if key == "outcome":
        return _by_outcome(arms, ks)
    members: dict[tuple[str | None, str | None], list[tuple[Arm, frozenset[str]]]] = defaultdict(list)
    for arm in arms:
        if key in TASK_KEYS:
            for name, tasks in _tasks_by(arm, key).items():
                members[name, arm.label].append((arm, frozenset(tasks)))
        else:
            members[_ACROSS[key](arm), None].append((arm, frozenset(_tasks(arm))))
    trials = {arm.label: _by_task(arm) for arm in arms}
    groups = [_group(name, label, parts, trials, ks) for (name, label), parts in members.items()]
    return sorted(groups, key=lambda group: (group.name is None, group.name or ""))


_ACROSS: dict[str, Callable[[Arm], str | None]] = {
    "agent": lambda arm: arm.agent,
    "job": lambda arm: arm.job.name,
    "model": lambda arm: next((each.model for each in arm.job.file.spec.agents if each.title == arm.agent), None),
}


def _tasks(arm: Arm) -> dict[str, None]:
    return dict.fromkeys([*arm.planned_tasks, *(trial.task_id for trial in arm.trials)])


def _tasks_by(arm: Arm, key: str) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = defaultdict(list)
    for task in _tasks(arm):
        for name in _names(arm, task, key):
            found[name].append(task)
    return found


def _names(arm: Arm, task: str, key: str) -> Iterator[str | None]:
    labels = arm.job.labels_of(task)
    if key == "task":
        yield task
    elif key == "tag":
        yield from labels.tags or (None,)
    else:
        yield getattr(labels, key)


def _by_task(arm: Arm) -> dict[str, list[TrialEntry]]:
    found: dict[str, list[TrialEntry]] = defaultdict(list)
    for trial in arm.trials:
        found[trial.task_id].append(trial)
    return found


def _group(
    name: str | None,
    label: str | None,
    parts: Sequence[tuple[Arm, frozenset[str]]],
    trials: dict[str, dict[str, list[TrialEntry]]],
    ks: Sequence[int] | None,
) -> Group:
    planned = sum(arm.planned_tasks.get(task, 0) for arm, tasks in parts for task in tasks)
    found = [trial for arm, tasks in parts for task in sorted(tasks) for trial in trials[arm.label].get(task, ())]
    chosen = Trials(tuple(found), planned)
    return Group(name, label, len({task for _, tasks in parts for task in tasks}), chosen, figures_of(chosen, ks=ks))


def _by_outcome(arms: Sequence[Arm], ks: Sequence[int] | None) -> list[Group]:
    groups = []
    for arm in arms:
        found: dict[str, list[TrialEntry]] = defaultdict(list)
        for trial in arm.trials:
            found[trial.outcome].append(trial)
        for outcome, trials in sorted(found.items()):
            chosen = Trials(tuple(trials), len(trials))
            tasks = len({trial.task_id for trial in trials})
            groups.append(Group(outcome, arm.label, tasks, chosen, figures_of(chosen, ks=ks)))
    return sorted(groups, key=lambda group: group.name or "")


def sort_figures(rows: Sequence[tuple[str, Figures]], key: SortKey, *, reverse: bool = False) -> list[int]:
    """In which order rows of a table are shown: names from A, numbers from the largest, and what has none last."""
    if key == "name":
        return sorted(range(len(rows)), key=lambda index: rows[index][0], reverse=reverse)
    values = [_VALUES[key](figures) for _, figures in rows]
    known = [index for index, value in enumerate(values) if value is not None]
    unknown = [index for index, value in enumerate(values) if value is None]
    return [*sorted(known, key=lambda index: values[index] or 0.0, reverse=not reverse), *unknown]


_VALUES: dict[SortKey, Callable[[Figures], float | None]] = {
    "mean": lambda figures: figures.mean,
    "pass": lambda figures: figures.pass_rate,
    "cost": lambda figures: figures.usage.cost_usd if figures.usage else None,
    "time": lambda figures: figures.times.median if figures.times else None,
    "scored": lambda figures: figures.scored,
}


# The heat map: what each arm got at each task, in an order in which patterns are seen.


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
        return tuple(mean_of(cell.mean for cell in row) for row in self.cells)


def heat_map(arms: Sequence[Arm]) -> HeatMap:
    """The matrix of all tasks of these arms. Whatever was never judged comes last; equals are in order of name."""
    ordered = sorted(arms, key=lambda arm: _order(arm.figures.mean, arm.label))
    columns = [_column(arm) for arm in ordered]
    names = {task for column in columns for task in column}
    nothing = HeatCell(None, 0, 0, 0, 0)
    rows = {name: tuple(column.get(name, nothing) for column in columns) for name in names}
    tasks = sorted(names, key=lambda name: _order(mean_of(cell.mean for cell in rows[name]), name))
    return HeatMap(tuple(tasks), tuple(ordered), tuple(rows[task] for task in tasks))


def _column(arm: Arm) -> dict[str, HeatCell]:
    """What an arm got at each task it was asked to do, or did."""
    planned = arm.planned_tasks
    finished = Counter(trial.task_id for trial in arm.trials)
    cells = {}
    for task in {**planned, **finished}:
        scored, passed = arm.attempts.get(task, (0, 0))
        mean = arm.selected.task_means.get(task)
        cells[task] = HeatCell(mean, passed, scored, finished[task], planned.get(task, 0))
    return cells


def _order(mean: float | None, name: str) -> tuple[bool, float, str]:
    return mean is None, -(mean or 0.0), name


# The Pareto front: which are not beaten in both what they cost and what they are worth.


def on_front(points: Sequence[tuple[float, float]]) -> list[bool]:
    """For each pair of cost and worth, whether no other is at least as good in both and better in one."""
    return [not any(_beats(other, point) for other in points) for point in points]


def _beats(other: tuple[float, float], point: tuple[float, float]) -> bool:
    return other[0] <= point[0] and other[1] >= point[1] and other != point
