"""Which tasks a job is about: everything below its paths, chosen by globs, each with an id of its own."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from seatrial.errors import JobError
from seatrial.model.job import JobSpec, LeftOut
from seatrial.model.task import BrokenTask
from seatrial.tasks.dataset import Dataset, load_dataset
from seatrial.tasks.layout import TaskFiles
from seatrial.tasks.outline import TaskOutline

_NESTED_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks of a job by id, in order, and what the user should know about those that are not in it.

    `files` are those that were found in each task's folder, by its root; `unreadable` are folders meant as tasks.
    """

    tasks: Mapping[str, TaskOutline]
    notices: list[str] = field(default_factory=list)
    files: Mapping[Path, TaskFiles] = field(default_factory=dict)
    unreadable: tuple[LeftOut, ...] = ()


def select_tasks(spec: JobSpec, known: Mapping[Path, str] | None = None) -> Selection:
    """Load and choose. `known` are ids that tasks had before, by folder, which they keep.

    Raises DatasetNotFoundError, or JobError when no usable task is left.
    """
    datasets = [load_dataset(path) for path in spec.tasks]
    tasks = _named({task.root: task for dataset in datasets for task in dataset.outlines}.values(), known or {})
    matching = (task for task in tasks if _is_chosen(spec, (task.id, task.name)))
    chosen = {task.id: task for task in islice(matching, spec.max_tasks)}
    broken = _broken(datasets)
    names = sorted({name for task in tasks for name in (task.id, task.name)}.union(task.id for task in broken))
    unreadable = [task for task in broken if _is_chosen(spec, (task.id,))]
    notices = [_why_left_out(task) for task in unreadable] + _idle_globs(spec, names)
    if not chosen:
        raise JobError(_nothing_left(spec, tasks, notices))
    notices += _nested(chosen.values())
    files = {root: listed for dataset in datasets for root, listed in dataset.files.items()}
    return Selection(chosen, notices, files, tuple(map(_unreadable, unreadable)))


def _named(tasks: Iterable[TaskOutline], known: Mapping[Path, str]) -> list[TaskOutline]:
    """Tasks whose ids tell them apart: those of the same id in different folders get more of their path in front."""
    named = [_renamed(task, known.get(task.root, task.id)) for task in tasks]
    for _ in range(max((len(task.root.parts) for task in named), default=0)):
        counts = Counter(task.id for task in named)
        if len(counts) == len(named):
            break
        named = [_longer(task) if counts[task.id] > 1 and task.root not in known else task for task in named]
    return named


def _longer(task: TaskOutline) -> TaskOutline:
    wanted = task.id.count("/") + 2
    return _renamed(task, "/".join(task.root.parts[1:][-wanted:]))


def _renamed(task: TaskOutline, task_id: str) -> TaskOutline:
    return task if task.id == task_id else replace(task, id=task_id)


def _is_chosen(spec: JobSpec, names: Sequence[str]) -> bool:
    return (not spec.include or _matches(names, spec.include)) and not _matches(names, spec.exclude)


def _matches(names: Sequence[str], globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs for name in names)


def _broken(datasets: Sequence[Dataset]) -> list[BrokenTask]:
    return list({task.root: task for dataset in datasets for task in dataset.broken}.values())


def _why_left_out(task: BrokenTask) -> str:
    errors = sum(problem.severity == "error" for problem in task.problems)
    more = f" (and {errors - 1} more; `seatrial lint {shlex.quote(str(task.root))}` shows all)" if errors > 1 else ""
    return f"task {task.id} is left out, it cannot be read: {_first_error(task)}{more}"


def _unreadable(task: BrokenTask) -> LeftOut:
    return LeftOut(kind="unreadable", task=task.id, reason="cannot be read as a task", detail=_first_error(task))


def _first_error(task: BrokenTask) -> str:
    return next((str(problem) for problem in task.problems if problem.severity == "error"), "no reason given")


def _nested(tasks: Iterable[TaskOutline]) -> list[str]:
    """Tasks that lie inside another one's folder, which somebody may have meant to run."""
    found = [f"in {task.id}: {each}" for task in tasks for each in task.problems if each.code == "nested-task"]
    more = len(found) - _NESTED_SHOWN
    return [*found[:_NESTED_SHOWN], *([f"{more} more tasks have tasks inside their folders"] if more > 0 else [])]


def _idle_globs(spec: JobSpec, names: Sequence[str]) -> list[str]:
    return [
        f"{option} {glob!r} matches no task{_near(glob, names)}"
        for option, globs in (("include", spec.include), ("exclude", spec.exclude))
        for glob in globs
        if not any(fnmatchcase(name, glob) for name in names)
    ]


def _near(glob: str, names: Sequence[str]) -> str:
    word = glob.strip("*")
    near = [name for name in names if word in name][:3] or get_close_matches(word, names)
    return f"; similar: {', '.join(near)}" if near else ""


def _nothing_left(spec: JobSpec, tasks: Sequence[TaskOutline], notices: Sequence[str]) -> str:
    found = f"{len(tasks)} usable tasks were found in {', '.join(spec.tasks)}, and none is left to run"
    example = f"there is for example {tasks[0].id}" if tasks and not notices else ""
    return "\n".join([found, *(f"  {line}" for line in [*notices, example] if line)])
