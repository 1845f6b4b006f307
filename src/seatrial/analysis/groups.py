"""Trials in groups: by their task, by what their tasks say of themselves, by who tried, or by how they ended.

A group of tasks has a row for each arm, since the mean of two agents is that of none. Groups of trials that have an
agent, a model or a job in common are across arms.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from seatrial.analysis.arms import Arm
from seatrial.analysis.figures import Figures, figures_of
from seatrial.analysis.pool import Pool
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
    pool: Pool
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
    """The tasks that an arm was asked to do, or did."""
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
    pool = Pool(planned, tuple(found))
    return Group(name, label, len({task for _, tasks in parts for task in tasks}), pool, figures_of(pool, ks=ks))


def _by_outcome(arms: Sequence[Arm], ks: Sequence[int] | None) -> list[Group]:
    groups = []
    for arm in arms:
        found: dict[str, list[TrialEntry]] = defaultdict(list)
        for trial in arm.trials:
            found[trial.outcome].append(trial)
        for outcome, trials in sorted(found.items()):
            pool = Pool(len(trials), tuple(trials))
            tasks = len({trial.task_id for trial in trials})
            groups.append(Group(outcome, arm.label, tasks, pool, figures_of(pool, ks=ks)))
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
    "mean": lambda figures: figures.mean.value if figures.mean else None,
    "pass": lambda figures: figures.pass_rate.value if figures.pass_rate else None,
    "cost": lambda figures: figures.tally.usage.cost_usd if figures.tally.usage else None,
    "time": lambda figures: figures.times.median if figures.times else None,
    "scored": lambda figures: figures.tally.scored,
}
