"""Which tasks are to be checked, and what is refused before anything starts: the same that a run refuses."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seatrial.backends.named import check_backend
from seatrial.errors import JobError
from seatrial.jobs.fitness import NO_KEY_FOR_SOLUTION, choose_tasks, left_out_notices, nothing_to_run
from seatrial.jobs.select import select_tasks
from seatrial.jobs.strangers import check_images
from seatrial.jobs.variables import check_variables
from seatrial.model.job import JobSpec, LeftOut
from seatrial.sandbox.ca_file import client_trust
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.layout import TaskFiles
from seatrial.tasks.outline import TaskOutline

AGENTS = ("oracle", "noop")
"""Who works on the tasks while they are checked."""


@dataclass(frozen=True, slots=True)
class TaskToCheck:
    """A task, and what a user calls it on the command line."""

    outline: TaskOutline
    name: str
    files: TaskFiles | None = None

    def digest(self) -> str:
        """The digest of its files. Raises OSError or UsageError."""
        return digest_folder(self.outline.root, self.files)


@dataclass(frozen=True, slots=True)
class ChosenTasks:
    """The tasks to check in order, those that are left out, and what the user should know."""

    tasks: tuple[TaskToCheck, ...]
    left_out: tuple[LeftOut, ...] = ()
    notices: tuple[str, ...] = ()


def choose(spec: JobSpec, given: Sequence[str]) -> ChosenTasks:
    """Find the tasks that a spec names; `given` are its paths as the user wrote them.

    Raises UsageError for what a run refuses: no task, unknown backends, images and variables that no task may have.
    """
    check_backend(spec.trial.backend)
    if spec.trial.ca_file:
        client_trust(spec.trial.ca_file)
    selection = select_tasks(spec)
    choice = choose_tasks(selection, spec)
    keyless = {each.task: each for each in choice.left_out if each.reason == NO_KEY_FOR_SOLUTION}
    fit = [task for task in choice.fit if task.id not in keyless]
    if not fit:
        raise JobError(nothing_to_run(choice.left_out))
    check_images(fit, spec.trial)
    denied = check_variables({task.id: task.config for task in fit}, spec.agents, spec.trial)
    refused = (each for each in choice.left_out if each.kind != "declined")
    left_out = (*selection.unreadable, *refused, *keyless.values())
    names = dict(zip(spec.tasks, given, strict=True))
    tasks = tuple(TaskToCheck(task, _called(task.root, names), selection.files.get(task.root)) for task in fit)
    return ChosenTasks(tasks, left_out, (*selection.notices, *left_out_notices(left_out), *denied))


def _called(root: Path, names: Mapping[str, str]) -> str:
    """A task's folder as a user would write it, beginning with what they wrote."""
    for whole, given in names.items():
        if root.is_relative_to(whole):
            name = os.path.normpath(os.path.join(given, os.path.relpath(root, whole)))  # noqa: PTH118 - as it was named
            return f"./{name}" if name.startswith("-") else name  # it would be taken for an option
    return str(root)
