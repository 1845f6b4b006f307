"""What the agent did to the files of its sandbox: the declared output first, then every file that changed."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from seatrial.errors import JobError, SeatrialError
from seatrial.model.record import CHANGES, FileChanges, TrialRecord
from seatrial.report.text import counted
from seatrial.view.rendering.bounded import read_bounded
from seatrial.view.trial.left_files import EndStateFiles, ShownChange
from seatrial.view.trial.opened import OpenedTrial
from seatrial.view.trial.task_folder import declared_outputs

ChangeKind = Literal["added", "modified", "removed"]

MOST_FILES = 200
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
    """All changed files, the declared output first; `left_out` of them are not named. `kept` is about the end state.

    `can_open` is whether there is an end state to show files of.
    """

    files: tuple[ChangedFile, ...] = ()
    left_out: int = 0
    truncated: bool = False
    counts: str = ""
    kept: str = ""
    trouble: str = ""
    can_open: bool = False


def changes_of(trial: OpenedTrial) -> Changes:
    """What changed in a trial, with as much of it as can be read at once."""
    found = read_changes(trial)
    if isinstance(found, str):
        return Changes(trouble=found)
    outputs, state = declared_outputs(trial), EndStateFiles(trial)
    named = [*islice(_files(found, outputs), MOST_FILES)]
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


def _files(found: FileChanges, outputs: frozenset[str]) -> Iterator[ChangedFile]:
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
