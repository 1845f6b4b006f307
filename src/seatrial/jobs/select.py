"""Which tasks a job is about: everything below its paths that its globs choose, less what cannot be judged.

`select_tasks` finds them and gives each an id of its own. `choose_tasks` leaves out tasks that ask for what no sandbox
here has or for a provider's key, and those that an agent declines. It refuses a job with tasks in which lint finds
errors: their rewards would say nothing about any agent.
"""

import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from seatrial.agents.api import Agent, make_agent, why_declined
from seatrial.errors import JobError
from seatrial.jobs.checks import keys_asked, keys_of_verifiers, rubric_faults, solution_variables
from seatrial.jobs.plan import count_left_out
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LeftOut
from seatrial.model.loaded_task import BrokenTask, Problem
from seatrial.model.task import TaskConfig
from seatrial.tasks.layout import TaskFiles
from seatrial.tasks.load import Dataset, load_dataset
from seatrial.tasks.needs import REASONS, Need, needs_of
from seatrial.tasks.outline import TaskOutline
from seatrial.tasks.soundness import is_sound
from seatrial.tasks.variables import declared_tables, verifier_tables, without_judges
from seatrial.trial.place import unmet_needs

# Finding tasks.

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


# Leaving some out.

NO_KEY_FOR_SOLUTION = "its solution asks for the key of a model provider, which no task gets"
_SHOWN = 10
_DETAILED = 5


class RunnableTasks(NamedTuple):
    """The tasks that are `fit` for a job, those of them that have trials (`needed`), and what is left out, with why."""

    fit: tuple[TaskOutline, ...]
    needed: tuple[TaskOutline, ...]
    left_out: tuple[LeftOut, ...]


def choose_tasks(selection: Selection, spec: JobSpec, old: JobFile | None = None) -> RunnableTasks:
    """What a job can be about. Of a job that goes on, what it was about already is not judged again.

    Raises JobError that names the tasks in which lint finds errors, unless the spec lets them run.
    """
    settled = {task.id for task in old.tasks} if old else set()
    asked = {(task.id, agent.title) for task in old.tasks for agent in old.spec.agents} if old else set()
    without = {(entry.task, entry.agent) for entry in old.left_out} if old else set()
    tasks = selection.tasks.values()
    refused = _refused_tasks([task for task in tasks if task.id not in settled], spec, selection.files)
    fit = tuple(task for task in tasks if task.id not in refused)
    declined = _declined_tasks(fit, spec, asked)
    gone = without.union((entry.task, entry.agent) for entry in declined)
    needed = tuple(task for task in fit if any((task.id, agent.title) not in gone for agent in spec.agents))
    if spec.trial.unfit == "refuse":
        has_trials = {task_id for task_id, _ in asked - without}
        _refuse_faulty([task for task in needed if task.id not in has_trials], selection.files)
    return RunnableTasks(fit, needed, (*refused.values(), *declined))


def nothing_to_run(left_out: Sequence[LeftOut]) -> str:
    """The message for a job in which every task is left out."""
    return "\n".join(["none of the chosen tasks can be run:", *(f"  {line}" for line in left_out_notices(left_out))])


def left_out_notices(left_out: Sequence[LeftOut]) -> list[str]:
    """What is left out, counted, and of some of the refused tasks what they ask for."""
    details = [f"{entry.task} asks for {entry.detail}" for entry in left_out if entry.detail]
    return [*map(str, count_left_out(left_out)), *details[:_DETAILED]]


def _refused_tasks(tasks: Iterable[TaskOutline], spec: JobSpec, files: Mapping[Path, TaskFiles]) -> dict[str, LeftOut]:
    """By their ids the tasks that ask for what they cannot get in a job like this."""
    refused = {}
    for task in tasks:
        unmet = unmet_needs(needs_of(task, files.get(task.root)), spec.trial)
        keys = keys_asked(_tables(task.config), spec.model.upstream)
        judges = keys_of_verifiers(task.config, spec.trial.verifier_upstream) or rubric_faults(task, spec)
        if unmet or keys or judges:
            refused[task.id] = _refused(task.id, unmet, keys, judges)
    return refused


def _tables(config: TaskConfig) -> Iterator[Mapping[str, str]]:
    yield from declared_tables(config)
    yield from map(without_judges, verifier_tables(config))


def _refused(task_id: str, unmet: list[Need], keys: list[str], judges: list[str]) -> LeftOut:
    reasons, details = [REASONS[need.code] for need in unmet], []
    if unmet:
        details.append(f"{'; '.join(map(str, unmet))}: {'; '.join(dict.fromkeys(need.fix for need in unmet))}")
    if keys:
        reasons.append("no task gets the key of a model provider")
        details.append(f"{'; '.join(keys)}; with a default in task.toml it runs without")
    if judges:
        reasons.append("its verifier asks a model that this run does not have")
        details.append("; ".join(judges))
    return LeftOut(kind="refused", task=task_id, reason="; ".join(dict.fromkeys(reasons)), detail="; ".join(details))


def _declined_tasks(tasks: Sequence[TaskOutline], spec: JobSpec, known: Collection[tuple[str, str]]) -> list[LeftOut]:
    """What the agents say they cannot attempt; pairs of task and agent that are `known` are not asked about again."""
    return [
        LeftOut(kind="declined", task=task.id, agent=options.title, reason=reason)
        for options in spec.agents
        for agent in (make_agent(options),)
        for task in tasks
        if (task.id, options.title) not in known
        and (reason := why_declined(agent, task) or _without_keys(options, agent, task, spec))
    ]


def _without_keys(options: AgentOptions, agent: Agent, task: TaskOutline, spec: JobSpec) -> str | None:
    """Why an agent that does what the task says cannot: the task wants it to have a key that no task gets."""
    if not task.config.solution_env:
        return None
    found = keys_asked([solution_variables(options, agent, task.config)], spec.model.upstream)
    return NO_KEY_FOR_SOLUTION if found else None


def _refuse_faulty(tasks: Iterable[TaskOutline], files: Mapping[Path, TaskFiles]) -> None:
    doubtful = [task for task in tasks if not is_sound(task, files.get(task.root))]
    if not doubtful:
        return
    from seatrial.tasks.lint import errors_of  # noqa: PLC0415 - it is large, and most tasks are sound

    faults = [(task, errors) for task in doubtful if (errors := errors_of(task))]
    if faults:
        raise JobError("\n".join(_complaint(faults)))


def _complaint(faults: list[tuple[TaskOutline, list[Problem]]]) -> Iterator[str]:
    count = len(faults)
    yield f"lint finds errors in {count} of the chosen tasks, so their rewards would say nothing:"
    for task, errors in faults[:_SHOWN]:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        yield f"  {task.id}: [{errors[0].code}] {errors[0]}{more}"
    if count > _SHOWN:
        yield f"  … and {count - _SHOWN} more tasks"
    lint = shlex.join(("seatrial", "lint", str(faults[0][0].root)))
    yield f"`{lint}` says how to correct them; --exclude leaves them out, --force runs them"
