"""Whose tests a regrade runs: the tasks as they are now, where they were or elsewhere, and tests from elsewhere."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from seatrial.errors import DatasetNotFoundError, JobError, VerifierStageError
from seatrial.model.job import LockedTask
from seatrial.model.task import Task
from seatrial.tasks.dataset import load_dataset
from seatrial.tasks.digest import digest_folder
from seatrial.tasks.load import read_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.trial.rounds import rounds_of, tests_below
from seatrial.verify.stage import digest_tests

GivenTests = Mapping[str | None, tuple[Path, ...]]
"""Folders of tests by the name of the round that they are for."""


@dataclass(frozen=True, slots=True)
class RegradedTask:
    """A task as it is now, the digest of its folder, the tests that are given for it, and the digests of all tests."""

    task: Task
    digest: str
    given: GivenTests = field(default_factory=dict)
    tests_digests: Mapping[str | None, str] = field(default_factory=dict)


def find_tasks(locked: Sequence[LockedTask], paths: Sequence[Path], tests: Path | None) -> dict[str, RegradedTask]:
    """The tasks of a job by id, with the tests to run. Tasks below `paths` go before those where they were.

    Raises JobError that names every task that is not there or has no tests, DatasetNotFoundError for a path.
    """
    moved = [outline for path in paths for outline in load_dataset(path).outlines]
    outlines = {task.id: _outline(task, moved) for task in locked}
    gone = [f"  task {task.id}: is not at {task.root}" for task in locked if outlines[task.id] is None]
    if gone:
        raise JobError(
            "\n".join(["these tasks cannot be read any more:", *gone, "-p FOLDER says where they are now, or choose"])
            + " other trials by --where"
        )
    tasks = {task_id: outline.task() for task_id, outline in outlines.items() if outline}
    given = _given(tests, tasks) if tests else {}
    return {task_id: _with_digests(task, given.get(task_id, {})) for task_id, task in tasks.items()}


def _outline(task: LockedTask, moved: Iterable[TaskOutline]) -> TaskOutline | None:
    if elsewhere := _of_id(task.id, moved):
        return replace(elsewhere, id=task.id)
    found = read_folder(Path(task.root), task.id)
    return found if isinstance(found, TaskOutline) else None


def _of_id(task_id: str, outlines: Iterable[TaskOutline]) -> TaskOutline | None:
    """The task of an id; else the only one whose folder has its name, for ids may begin with folders above."""
    every = list(outlines)
    exact = [outline for outline in every if outline.id == task_id]
    found = exact or [outline for outline in every if outline.root.name == task_id.rpartition("/")[2]]
    return found[0] if len(found) == 1 else None


def _given(folder: Path, tasks: Mapping[str, Task]) -> dict[str, GivenTests]:
    if not folder.is_dir():
        raise JobError(f"--tests {folder}: there is no such folder")
    if (folder / "test.sh").is_file():
        return _for_one_task(folder.absolute(), tasks)
    try:
        outlines = load_dataset(folder).outlines
    except DatasetNotFoundError:
        raise JobError(f"--tests {folder}: holds neither a test.sh nor tasks with tests") from None
    found = {task_id: _of_id(task_id, outlines) for task_id in tasks}
    given: dict[str, GivenTests] = {
        task_id: {
            round_.name: tests_below(outline.root.absolute(), round_.name) for round_ in rounds_of(tasks[task_id])
        }
        for task_id, outline in found.items()
        if outline
    }
    if missing := sorted(task_id for task_id in tasks if not all(given.get(task_id, {None: ()}).values())):
        raise JobError(f"--tests {folder}: has no tests for {', '.join(missing)}; choose other trials by --where")
    return given


def _for_one_task(folder: Path, tasks: Mapping[str, Task]) -> dict[str, GivenTests]:
    if len(tasks) > 1:
        raise JobError(
            f"--tests {folder}: is the tests/ of one task, and the trials are of {len(tasks)}; name a folder of tasks, "
            "or choose the trials of one task by --where task=…"
        )
    (task,) = tasks.values()
    if task.steps:
        raise JobError(f"--tests {folder}: task {task.id} has steps with tests of their own; name a task's folder")
    return {task.id: {None: (folder,)}}


def _with_digests(task: Task, given: GivenTests) -> RegradedTask:
    rounds = [replace(round_, given=given.get(round_.name, ())) for round_ in rounds_of(task)]
    try:
        digests = {round_.name: digest_tests(round_.tests()) for round_ in rounds}
    except VerifierStageError as error:
        raise JobError(f"task {task.id}: {error}") from None
    return RegradedTask(task, digest_folder(task.root), given, digests)
