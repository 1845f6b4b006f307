"""Finding tasks: every folder with a task.toml at any depth, in a stable order, each told apart by its path."""

import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from seatrial.errors import DatasetNotFoundError, OversizeError
from seatrial.model.task import BrokenTask, Problem, SkippedFolder, Task
from seatrial.tasks.layout import IGNORED_FOLDERS, TaskFiles, list_files
from seatrial.tasks.load import read_folder
from seatrial.tasks.outline import TaskOutline
from seatrial.tasks.toml import TASK_TOML

_Entry = TaskOutline | BrokenTask | SkippedFolder

_NOT_YET_TASKS = frozenset({"template", "templates", "task-template", "task_template", "draft", "drafts"})


@dataclass(frozen=True)
class Dataset:
    """Everything found below one path; `files` are those of each task, by its root."""

    outlines: tuple[TaskOutline, ...]
    broken: tuple[BrokenTask, ...]
    skipped: tuple[SkippedFolder, ...]
    files: Mapping[Path, TaskFiles] = field(default_factory=dict, repr=False)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """All that can be read, with what they expect."""
        with _no_collections():
            return tuple(outline.task() for outline in self.outlines)


def load_dataset(path: Path | str) -> Dataset:
    """Every task below a path; broken ones stop no other. Raises DatasetNotFoundError when there is none at all."""
    with _no_collections():
        found = list(_scan(path))
    return Dataset(
        outlines=tuple(entry for entry, _ in found if isinstance(entry, TaskOutline)),
        broken=tuple(entry for entry, _ in found if isinstance(entry, BrokenTask)),
        skipped=tuple(entry for entry, _ in found if isinstance(entry, SkippedFolder)),
        files={entry.root: files for entry, files in found if isinstance(entry, TaskOutline) and files},
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Pause the garbage collector: it would look again and again through objects that are all there to stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not gc.get_freeze_count():
            # Files what was loaded among the old objects; else the first collection would look through all of it.
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


def scan(path: Path | str) -> Iterator[Task | BrokenTask | SkippedFolder]:
    """Yield tasks, broken tasks and skipped folders one by one, in the order of their paths."""
    for entry, _ in _scan(path):
        yield entry.task() if isinstance(entry, TaskOutline) else entry


def _scan(path: Path | str) -> Iterator[tuple[_Entry, TaskFiles | None]]:
    root = _dataset_root(Path(path))
    found = False
    for entry, files in _scan_folder(root):
        found = found or not isinstance(entry, SkippedFolder)
        yield entry, files
    if not found:
        raise DatasetNotFoundError(
            f"{path}: no folder with a {TASK_TOML} at any depth; point to a task folder or a folder of them"
        )


def _dataset_root(path: Path) -> Path:
    if not path.exists():
        raise DatasetNotFoundError(f"{path}: no such file or folder; point to a task folder or a folder of them")
    root = path.resolve()
    if any("\udc80" <= character <= "\udcff" for character in str(root)):
        raise DatasetNotFoundError(f"{str(path)!a}: its name is not UTF-8; rename it")
    if root.is_dir():
        return root
    if root.name == TASK_TOML:
        return root.parent
    raise DatasetNotFoundError(f"{path}: found a file, expected a task folder or a folder of them")


def _scan_folder(root: Path) -> Iterator[tuple[_Entry, TaskFiles | None]]:
    # A list of what is still to do, not calls within calls: strangers decide how deep their folders go.
    pending: list[tuple[str, str, str | None]] = [(str(root), "", None)]
    while pending:
        folder, relative, reason = pending.pop()
        if reason:
            # Such a name cannot be stored as text, so it is shown with the odd bytes written out.
            path = Path(os.fsencode(folder).decode("utf-8", "backslashreplace"))
            yield SkippedFolder(path=path, reason=reason), None
            continue
        if os.path.lexists(f"{folder}/{TASK_TOML}"):
            yield _load(Path(folder), relative or root.name)
            continue
        try:
            with os.scandir(folder) as entries:
                children = sorted(entries, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            yield SkippedFolder(path=Path(folder), reason=f"cannot be read: {error.strerror}"), None
            continue
        names = {child.name for child in children}
        if "instruction.md" in names and names & {"tests", "solution", "environment"}:
            yield _without_config(Path(folder), relative or root.name), None
        else:
            prefix = f"{relative}/" if relative else ""
            pending += [
                (child.path, prefix + child.name, _reason_to_skip(child))
                for child in children
                if child.name not in IGNORED_FOLDERS and not child.name.startswith(".") and _is_folder(child)
            ]


def _load(root: Path, task_id: str) -> tuple[_Entry, TaskFiles | None]:
    try:
        files = list_files(root)
    except (OSError, OversizeError):  # loading says of the task what is wrong with it
        files = None
    return read_folder(root, task_id, files), files


def _is_folder(child: os.DirEntry[str]) -> bool:
    try:
        return child.is_dir()
    except OSError:  # a link to itself
        return False


def _reason_to_skip(child: os.DirEntry[str]) -> str | None:
    if child.is_symlink():
        return "a symbolic link to a folder; pass its target to load it"
    if child.name.lower().strip("_") in _NOT_YET_TASKS:
        return "named like a template or draft; pass its path to load it"
    if any("\udc80" <= character <= "\udcff" for character in child.name):
        return "its name is not UTF-8; rename it"
    return None


def _without_config(folder: Path, task_id: str) -> BrokenTask:
    message = "the file is missing, though the folder looks like a task"
    problem = Problem(
        code="no-task-toml", severity="error", file=TASK_TOML, message=message, fix="add one; it may be empty"
    )
    return BrokenTask(id=task_id, root=folder, problems=(problem,))
