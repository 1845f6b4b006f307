"""Which of the chosen tasks a job can be about: what is refused, what an agent declines, and what is at fault.

A task that asks for what no sandbox here has, or for the key of a model provider, is left out and counted, so that the
others have results. A task that lint finds at fault stops the job before it starts: its rewards would say nothing about
any agent.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.agents.api import Agent, make_agent, why_declined
from seatrial.errors import JobError
from seatrial.jobs.plan import count_left_out
from seatrial.jobs.select import Selection
from seatrial.jobs.variables import keys_asked, solution_variables
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LeftOut
from seatrial.model.task import Problem
from seatrial.tasks.environ import declared_tables
from seatrial.tasks.faults import errors_of
from seatrial.tasks.layout import TaskFiles
from seatrial.tasks.needs import REASONS, Need, needs_of
from seatrial.tasks.outline import TaskOutline
from seatrial.trial.place import unmet_needs

NO_KEY_FOR_SOLUTION = "its solution asks for the key of a model provider, which no task gets"
_SHOWN = 10
_DETAILED = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """The tasks that are `fit` for a job, those of them that have trials (`needed`), and what is left out, with why."""

    fit: tuple[TaskOutline, ...]
    needed: tuple[TaskOutline, ...]
    left_out: tuple[LeftOut, ...]


def choose_tasks(selection: Selection, spec: JobSpec, old: JobFile | None = None) -> Choice:
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
    return Choice(fit, needed, (*refused.values(), *declined))


def nothing_to_run(left_out: Sequence[LeftOut]) -> str:
    """The message for a job in which every task is left out."""
    return "\n".join(["none of the chosen tasks can be run:", *(f"  {line}" for line in left_out_notices(left_out))])


def left_out_notices(left_out: Sequence[LeftOut]) -> list[str]:
    """What is left out, counted, and of some of the refused tasks what they ask for."""
    details = [f"{entry.task} asks for {entry.detail}" for entry in left_out if entry.detail]
    return [*map(str, count_left_out(left_out)), *details[:_DETAILED]]


def _refused_tasks(tasks: Iterable[TaskOutline], spec: JobSpec, files: Mapping[Path, TaskFiles]) -> dict[str, LeftOut]:
    """By their ids the tasks that ask for what they cannot get in a job like this."""
    found = (
        (
            task.id,
            unmet_needs(needs_of(task, files.get(task.root)), spec.trial),
            keys_asked(declared_tables(task.config), spec.model.upstream),
        )
        for task in tasks
    )
    return {task_id: _refused(task_id, unmet, keys) for task_id, unmet, keys in found if unmet or keys}


def _refused(task_id: str, unmet: list[Need], keys: list[str]) -> LeftOut:
    reasons, details = [REASONS[need.code] for need in unmet], []
    if unmet:
        details.append(f"{'; '.join(map(str, unmet))}: {'; '.join(dict.fromkeys(need.fix for need in unmet))}")
    if keys:
        reasons.append("no task gets the key of a model provider")
        details.append(f"{'; '.join(keys)}; with a default in task.toml it runs without")
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
    faults = [(task, errors) for task in tasks if (errors := errors_of(task, files.get(task.root)))]
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
