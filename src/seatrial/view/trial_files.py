"""What a trial's page shows of files: logs, the agent's changes, the instruction; and where each file is.

Pages name a file by its path in the trial's own folder, or below `@try.N/` or `@revision.N/`. How a file looks is the
matter of `show`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal

from markupsafe import Markup
from pydantic import ValidationError

from seatrial.errors import JobError, SeatrialError, StoreError
from seatrial.jobs.end_states import LeftFile, find_original, has_end_state, read_end_state
from seatrial.model.loaded_task import Task
from seatrial.model.record import CHANGES, FileChanges, TrialRecord
from seatrial.report.text import counted
from seatrial.tasks.instruction import strip_canary
from seatrial.tasks.locked import task_trouble, unchanged_task
from seatrial.trial.snapshot import ARCHIVE
from seatrial.untrusted.files import BoundedContent, bounded, read_bounded
from seatrial.view.differences import show_difference
from seatrial.view.opened import FileNode, FolderNode, OpenedTrial, round_folder, tree_of
from seatrial.view.show import ShownFile, show_file

# Logs: what agent and verifier printed and wrote, the beginning and the end of a long file.

LogPlace = Literal["agent", "verifier", "artifacts"]

SHOWN_BYTES = 2**16
MOST_FILES = 20
_PRINTED = ("stdout.txt", "stderr.txt")
_DEEPEST = {"agent": 0, "verifier": 1, "artifacts": 24}
"""How far below its folder is looked: what an agent logged by itself may be very much."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file: `path` is what pages have for it (see `trial_files`), `shown` what is seen of it, or `trouble`."""

    name: str
    path: str
    size: int
    shown: ShownFile | None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Log:
    """What one of them left in a round: what it printed first. `left_out` files are too many to be shown with it."""

    step: str | None
    files: tuple[LogFile, ...]
    left_out: int


def logs_of(trial: OpenedTrial, place: LogPlace) -> list[Log]:
    """What is kept of one of them in each round: of the verifier, what it left when the newest revision was made."""
    revision = trial.record.revision if trial.record and place == "verifier" else 0
    folder, begin = (trial.latest, f"@revision.{revision}/") if revision else (trial.folder, "")
    return [log for step in trial.rounds if (log := _log(folder, begin, place, step))]


def _log(folder: Path, begin: str, place: LogPlace, step: str | None) -> Log | None:
    own = f"steps/{step}/{place}" if step else place
    paths = [node.path for node in _files(tree_of(folder, own, deepest=_DEEPEST[place]))]
    if not paths:
        return None
    files = tuple(_file(folder, begin, path, own) for path in paths[:MOST_FILES])
    return Log(step, files, len(paths) - len(files))


def _files(node: FolderNode) -> Iterator[FileNode]:
    """The plain files below a folder, its own before those of folders in it."""
    yield from (file for file in sorted(node.files, key=_order) if not file.kind)
    for folder in node.folders:
        yield from _files(folder)


def _order(node: FileNode) -> tuple[int, str]:
    """What was printed first, then the rest by name."""
    return (_PRINTED.index(node.name) if node.name in _PRINTED else len(_PRINTED)), node.name


def _file(folder: Path, begin: str, path: str, own: str) -> LogFile:
    name = path.removeprefix(f"{own}/")
    try:
        content = read_bounded(Path(path), folder, SHOWN_BYTES)
    except SeatrialError as error:
        return LogFile(name, begin + path, 0, None, str(error))
    return LogFile(name, begin + path, content.size, show_file(name, content) if content.size else None)


# The task's own folder.


def declared_outputs(trial: OpenedTrial) -> frozenset[str]:
    """Where the task expects its output, as far as its folder still says so."""
    task = unchanged_task(trial.task)
    specs = [task.output, *(step.output for step in task.steps)] if task else []
    return frozenset(spec.path for spec in specs if spec.path)


def staged_original(task: Task, path: str) -> BoundedContent | None:
    """A file that a task put into the working directory, as it was before the agent came; None for any other."""
    if not PurePosixPath(path).is_relative_to(task.workdir):
        return None
    below = PurePosixPath(path).relative_to(task.workdir)
    steps = [f"steps/{step.spec.name}/workdir" for step in reversed(task.steps)]
    for place in (*steps, *(("environment",) if task.layout.environment_files else ())):
        try:
            return read_bounded(Path(place, below), task.root)
        except SeatrialError:
            continue
    return None


# Changed files as the agent left them, beside what they were before where that is known.

SMALL = 2**20
"""Up to how many bytes an end state is read with the trial's page."""


@dataclass(frozen=True, slots=True)
class ShownChange:
    """What became of a file, as HTML, and what a reader must know about it."""

    html: Markup
    note: str = ""


@dataclass(frozen=True)
class EndStateFiles:
    """The files of the last end state that a trial kept: a task with steps has one after each."""

    trial: OpenedTrial

    @cached_property
    def _place(self) -> Path | None:
        """The folder that it is in, from the job's on."""
        places = [round_folder(Path("trials", self.trial.trial_id), step) for step in reversed(self.trial.rounds)]
        return next((place for place in places if has_end_state(self.trial.job.path, place)), None)

    @cached_property
    def _task(self) -> Task | None:
        """The task, if its folder still tells what files were; to find that out, all of it is looked at."""
        return unchanged_task(self.trial.task)

    @property
    def exists(self) -> bool:
        return self._place is not None

    @property
    def is_small(self) -> bool:
        """Whether it can be read with the page."""
        return self._place is not None and (self.trial.job.path / self._place / ARCHIVE).lstat().st_size <= SMALL

    def show_all(self, kinds: Mapping[str, str]) -> dict[str, ShownChange]:
        """What became of each of these files, by their paths; their kinds are `added`, `modified` and `removed`."""
        try:
            left = read_end_state(self.trial.job.path, self._place, [*kinds]) if self._place else {}
        except StoreError as error:
            return {path: ShownChange(Markup(), str(error)) for path in kinds}
        return {path: self._show(path, kind, left.get(path)) for path, kind in kinds.items()}

    def _show(self, path: str, kind: str, left: LeftFile | None) -> ShownChange:
        after = left.content if left else None
        if kind != "removed" and after is None:
            return ShownChange(Markup(), left.note if left else "What is in it was not kept.")
        before, where = self._before(path) if kind != "added" else (None, "")
        if after is not None and (before is None or not (before.whole and after.whole)):
            shown = show_file(path, after)
            missing = "" if kind == "added" else "What it was before is not known, or too large to be compared."
            return ShownChange(shown.html, "; ".join(filter(None, (shown.note, missing))))
        if before is None:
            return ShownChange(Markup(), "What was in it is not known.")
        return ShownChange(show_difference(before.head, after.head if after else None, path), where)

    def _before(self, path: str) -> tuple[BoundedContent | None, str]:
        """What a file was before the agent came, and where that was found."""
        if self._task and (staged := staged_original(self._task, path)):
            return staged, "before: from the task's folder"
        record = self.trial.record
        original = find_original(record.sandbox, path) if record else None
        return (original.content, original.note) if original else (None, "")


# All changes an agent made: the declared output first.

ChangeKind = Literal["added", "modified", "removed"]

MOST_CHANGES = 200
SHOWN_FILES = 12
"""How many are shown with the page; the others are opened one by one."""

_MOST_BYTES = 2**24
_KINDS: tuple[ChangeKind, ...] = ("added", "modified", "removed")


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that is not as the image has it. What became of it is `shown` with the page, or where that is None has a
    page of its own.
    """

    path: str
    kind: ChangeKind
    is_output: bool
    shown: ShownChange | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """All changed files, the declared output first."""

    files: tuple[ChangedFile, ...] = ()
    left_out: int = 0
    """How many are not named."""
    truncated: bool = False
    counts: str = ""
    kept: str = ""
    """Why the end state was not kept, where that was noted."""
    trouble: str = ""
    can_open: bool = False
    """Whether there is an end state to show files of."""


def changes_of(trial: OpenedTrial) -> Changes:
    """What changed in a trial, with as much of it as can be read at once."""
    found = read_changes(trial)
    if isinstance(found, str):
        return Changes(trouble=found)
    outputs, state = declared_outputs(trial), EndStateFiles(trial)
    named = [*islice(_files_of_change(found, outputs), MOST_CHANGES)]
    shown = state.show_all({each.path: each.kind for each in named[:SHOWN_FILES]}) if state.is_small else {}
    files = [replace(each, shown=shown.get(each.path)) for each in named]
    return Changes(
        files=tuple(files),
        left_out=sum(len(getattr(found, kind)) for kind in _KINDS) - len(files),
        truncated=found.truncated,
        counts=", ".join(counted(len(getattr(found, kind)), f"file {kind}", f"files {kind}") for kind in _KINDS),
        kept=_kept(trial.record),
        can_open=state.exists,
    )


def change_of(trial: OpenedTrial, path: str) -> ChangedFile:
    """One changed file. Raises JobError where no such file changed, StoreError for an end state that is damaged."""
    found = read_changes(trial)
    kind = None if isinstance(found, str) else next((each for each in _KINDS if path in getattr(found, each)), None)
    if kind is None:
        raise JobError(f"{trial.trial_id}: its agent changed no file {path!r}")
    shown = EndStateFiles(trial).show_all({path: kind})[path]
    return ChangedFile(path, kind, path in declared_outputs(trial), shown)


def read_changes(trial: OpenedTrial) -> FileChanges | str:
    """Which files changed, or why that is not known."""
    try:
        content = read_bounded(Path(CHANGES), trial.folder, _MOST_BYTES)
        return FileChanges.model_validate_json(content.head)
    except SeatrialError:
        return _missing(trial.record)
    except ValidationError as error:
        return f"{CHANGES} is damaged: {error.errors()[0]['msg']}"


def _files_of_change(found: FileChanges, outputs: frozenset[str]) -> Iterator[ChangedFile]:
    """The declared output first; one by one, since there may be very many and few are named."""
    for is_output in (True, False):
        for kind in _KINDS:
            for path in getattr(found, kind):
                if (path in outputs) == is_output:
                    yield ChangedFile(path, kind, is_output)


def _missing(record: TrialRecord | None) -> str:
    if record and record.failure:
        return f"Nobody looked: the trial failed before its files were collected, so there is no {CHANGES}."
    return f"There is no {CHANGES} that can be read, so nothing is known of what the agent changed."


def _kept(record: TrialRecord | None) -> str:
    """Why the end state is not there, where that was noted."""
    states = [record.end_state, *(step.end_state for step in record.steps)] if record else []
    lost = [state.reason for state in states if state and not state.kept and state.reason]
    return f"The end state was not kept: {lost[0]}" if lost else ""


# Instructions, from the task's own folder.

INSTRUCTION = "instruction.md"


@dataclass(frozen=True, slots=True)
class ShownInstruction:
    """The instruction of a task or of a step, or why it cannot be shown."""

    step: str | None
    shown: ShownFile | None
    trouble: str = ""


def instructions_of(trial: OpenedTrial) -> list[ShownInstruction]:
    task = trial.task
    if task is None:
        return [ShownInstruction(None, None, "The job does not say where its task is.")]
    if trouble := task_trouble(task):
        return [ShownInstruction(None, None, trouble)]
    return [_instruction(Path(task.root), step) for step in trial.rounds]


def _instruction(root: Path, step: str | None) -> ShownInstruction:
    path = Path("steps", step, INSTRUCTION) if step else Path(INSTRUCTION)
    try:
        text = strip_canary(read_bounded(path, root).text())
    except SeatrialError as error:
        return ShownInstruction(step, None, str(error))
    return ShownInstruction(step, show_file(INSTRUCTION, bounded(text.encode())))


_ELSEWHERE = re.compile(r"@(try|revision)\.([1-9][0-9]{0,8})", re.ASCII)
_FOLDERS = {"try": "tries", "revision": "revisions"}


def place_of(trial_id: str, path: str) -> Path:
    """Where a trial's file is, from the folder of its job. Raises StoreError for what cannot be a path of one.

    Only names are looked at: whoever opens the file must follow no links.
    """
    names = path.split("/")
    if trial_id in ("", ".", "..") or "/" in trial_id or "\0" in trial_id:
        raise StoreError(f"{trial_id!r}: cannot be the id of a trial")
    if not path or "\0" in path or any(name in ("", ".", "..") for name in names):
        raise StoreError(f"{path!r}: cannot be read: expected the path of a file below the trial's folder")
    if elsewhere := _ELSEWHERE.fullmatch(names[0]):
        return Path(_FOLDERS[elsewhere[1]], f"{trial_id}.{elsewhere[2]}", *names[1:])
    return Path("trials", trial_id, *names)
