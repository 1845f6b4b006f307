"""Reading tasks: a folder becomes a TaskOutline or a BrokenTask, a path becomes a Dataset of all tasks below it.

All problems are collected; the content of one folder stops no other. `toml.py` reads task.toml, `layout.py` lists
files.
"""

import gc
import os
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from seatrial.errors import DatasetNotFoundError, OversizeError, TaskFormatError
from seatrial.model.job import TaskLabels
from seatrial.model.loaded_task import BrokenTask, Problem, SkippedFolder, Task, TaskLayout
from seatrial.model.task import NetworkPolicy, StepSpec, TaskConfig, VerifierPhaseSpec
from seatrial.tasks.expected import DEFAULT_WORKDIR, read_schema
from seatrial.tasks.instruction import strip_canary
from seatrial.tasks.layout import IGNORED_FOLDERS, TaskFiles, list_files, read_file, read_layout, refuse_large_trees
from seatrial.tasks.needs import MAX_COMPOSE_BYTES, closes_network, is_meant
from seatrial.tasks.outline import StepOutline, TaskOutline
from seatrial.tasks.table import Report
from seatrial.tasks.toml import TASK_TOML, is_on_windows, read_config
from seatrial.untrusted.json import decode

MAX_TOML_BYTES = 2**20
_NAMED = 3
MAX_INSTRUCTION_BYTES = 4 * 2**20
_WORKDIR = re.compile(r"^\s*WORKDIR\s+(\S+)", re.MULTILINE | re.IGNORECASE)


def load_task(folder: Path | str) -> Task:
    """The task in a folder, its id being the folder's name. Raises TaskFormatError with every reason."""
    root = Path(folder).resolve()
    found = read_folder(root, root.name)
    if isinstance(found, BrokenTask):
        raise TaskFormatError(str(folder), [str(problem) for problem in found.problems if problem.severity == "error"])
    return found.task()


def read_folder(root: Path, task_id: str, files: TaskFiles | None = None) -> TaskOutline | BrokenTask:
    """The task in `root`, or what is wrong with it. Never raises on the folder's content.

    Whoever has just listed the folder can say which `files` it holds.
    """
    report = Report(TASK_TOML)
    try:
        return _Loader(root, task_id, report).load(files)
    except _UnreadableTask:
        return BrokenTask(id=task_id, root=root, problems=tuple(report.problems))


def shown(name: str) -> str:
    """A file name as text that can be stored, with bytes that are not UTF-8 written out."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class _UnreadableTask(Exception):
    """Reading stopped; the report says why."""


class _Loader:
    """The state of loading one folder: what is known about it so far."""

    def __init__(self, root: Path, task_id: str, report: Report) -> None:
        self._root = root
        self._place = str(root)
        self._id = task_id
        self._report = report
        self._known: dict[str, tuple[bool, bytes]] = {}
        self._escaping: frozenset[str] = frozenset()

    def load(self, listed: TaskFiles | None) -> TaskOutline:
        files = self._files(listed)
        self._known = files.read
        config = self._config()
        layout = read_layout(files, config.environment.os)
        if self._has_no_network(config, layout):
            config = _without_network(config)
        workdir = self._workdir(config, layout)
        schema = read_schema(self._root, config.output.schema_file, self._report)
        text = self._instruction(layout, required=not config.steps)
        steps = tuple(self._step(step, config, files) for step in config.steps)
        self._stop_on_errors()
        problems = tuple(self._report.problems)
        return TaskOutline(self._id, self._root, workdir, config, layout, text, schema, steps, problems)

    def _files(self, listed: TaskFiles | None) -> TaskFiles:
        try:
            files = listed or list_files(self._root)
            refuse_large_trees(self._root, files)
        except OSError as error:
            self._fail("unreadable", error.filename or ".", str(error.strerror), "make the folder readable")
            raise _UnreadableTask from None
        except OversizeError as error:
            self._fail("too-large", ".", str(error), "keep large data in the image, or fetch it when that is built")
            raise _UnreadableTask from None
        self._escaping = frozenset(files.escaping)
        for link in files.escaping:
            self._fail("escaping-link", link, "a symbolic link that leads out of the task", "replace it by a copy")
        for path in files.special:
            self._fail("special-file", path, "a device, socket or pipe", "remove it")
        if nested := sorted(files.nested_tasks()):
            self._note_nested(nested)
        return files

    def _note_nested(self, folders: list[str]) -> None:
        named = ", ".join(map(shown, folders[:_NAMED])) + (", …" if len(folders) > _NAMED else "")
        message = (
            f"{len(folders)} tasks lie inside this task's folder ({named}): they are part of it, not run by themselves"
            if len(folders) > 1
            else "this task lies inside another task's folder: it is part of that one, not run by itself"
        )
        fix = f"move it out, or name it: {shown(f'{self._place}/{folders[0]}')}"
        self._report.problems.append(
            Problem(code="nested-task", severity="warning", file=shown(folders[0]), message=message, fix=fix)
        )

    def _config(self) -> TaskConfig:
        text = self._read(TASK_TOML, MAX_TOML_BYTES)
        config, report = read_config(text)
        self._report.problems += report.problems
        if config is None:
            raise _UnreadableTask
        return config

    def _instruction(self, layout: TaskLayout, *, required: bool, folder: str = "") -> str:
        if layout.instruction:
            return strip_canary(self._read(layout.instruction, MAX_INSTRUCTION_BYTES))
        if required:
            self._fail(
                "no-instruction", f"{folder}instruction.md", "the file is missing", "write what the agent is to do"
            )
        return ""

    def _step(self, step: StepSpec, config: TaskConfig, files: TaskFiles) -> StepOutline:
        folder = f"steps/{step.name}/"
        layout = read_layout(files, config.environment.os, folder)
        return StepOutline(step, layout, self._instruction(layout, required=True, folder=folder))

    def _workdir(self, config: TaskConfig, layout: TaskLayout) -> str:
        """The declared folder, else the last one the Dockerfile sets, else the usual one."""
        if config.environment.workdir or layout.dockerfile is None:
            return config.environment.workdir or DEFAULT_WORKDIR
        workdir = "/"
        for folder in _WORKDIR.findall(self._read(layout.dockerfile, MAX_TOML_BYTES, "replace")):
            path = folder.strip("\"'")
            workdir = path if is_on_windows(path) else posixpath.normpath(posixpath.join(workdir, path))
        return workdir if workdir != "/" and "$" not in workdir else DEFAULT_WORKDIR

    def _has_no_network(self, config: TaskConfig, layout: TaskLayout) -> bool:
        """Whether the compose file says so. What else it asks for, and whether it can be read, is looked at later."""
        file, has_image = layout.compose_file, bool(layout.dockerfile or config.environment.docker_image)
        if file is None or file in self._escaping or not is_meant(file, has_image=has_image):
            return False
        try:
            content, executable = read_file(f"{self._place}/{file}", MAX_COMPOSE_BYTES)
        except ValueError:
            return False
        self._known[file] = executable, sha256(content).digest()
        return closes_network(content)

    def _read(self, relative: str, limit: int, errors: Literal["strict", "replace"] = "strict") -> str:
        if relative in self._escaping:  # said already, and what it leads to is none of a task's business
            raise _UnreadableTask
        try:
            data, executable = read_file(f"{self._place}/{relative}", limit)
            self._known[relative] = executable, sha256(data).digest()
            return decode(data, errors)
        except ValueError as error:
            self._fail("unreadable", relative, str(error), "make it a readable UTF-8 text file")
            raise _UnreadableTask from None

    def _fail(self, code: str, file: str, message: str, fix: str) -> None:
        self._report.problems.append(Problem(code=code, severity="error", file=shown(file), message=message, fix=fix))

    def _stop_on_errors(self) -> None:
        if any(problem.severity == "error" for problem in self._report.problems):
            raise _UnreadableTask


def _without_network(config: TaskConfig) -> TaskConfig:
    """A configuration in which nothing that runs in the task's own container has a network."""
    usual, shared = config.environment.network, config.verifier

    def of_verifier(phase: VerifierPhaseSpec) -> VerifierPhaseSpec:
        is_separate = "separate" in (phase.environment_mode, shared.environment_mode)
        own = phase.environment.network if phase.environment else usual
        network = (phase.network or shared.network or own) if is_separate else None
        return phase.model_copy(update={"network": network})

    def of_step(step: StepSpec) -> StepSpec:
        agent = step.agent.model_copy(update={"network": None})
        return step.model_copy(update={"agent": agent, "verifier": of_verifier(step.verifier)})

    return config.model_copy(
        update={
            "environment": config.environment.model_copy(update={"network": NetworkPolicy(mode="no-network")}),
            "agent": config.agent.model_copy(update={"network": None}),
            "verifier": of_verifier(shared),
            "steps": tuple(map(of_step, config.steps)),
        }
    )


# Datasets: every folder with a task.toml at any depth, in a stable order, each named by its path.

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


# Labels under [metadata], by which results are grouped. Authors write anything there: what cannot be a label is left
# out.

_FAMILIES = ("family", "template", "template_id")
_MAX_TAGS, _MAX_LETTERS = 50, 100


def labels_of(config: TaskConfig) -> TaskLabels:
    metadata = config.metadata
    tags = metadata.get("tags", metadata.get("keywords", list(config.package.keywords)))
    found = map(_label, tags if isinstance(tags, list | tuple) else [tags])
    return TaskLabels(
        category=_label(metadata.get("category")),
        difficulty=_label(metadata.get("difficulty")),
        family=next(filter(None, (_label(metadata.get(name)) for name in _FAMILIES)), None),
        tags=tuple(dict.fromkeys(filter(None, found)))[:_MAX_TAGS],
    )


def _label(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value).strip()[:_MAX_LETTERS] or None
