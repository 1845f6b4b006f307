"""The evidence of a stored trial: what its folder and its task's folder have for a judge, read within bounds.

Trial folders hold what strangers made. No link is followed, a file that is missing or cannot be read is a piece of
evidence that says so, and the task's folder counts only if it is what the job has locked, or the job is this user's.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from seatrial.errors import SeatrialError, StoreError
from seatrial.gateway.calls import CALLS_FILE
from seatrial.jobs.end_states import LeftFile, find_in_end_state, has_end_state
from seatrial.jobs.turns import folders_of_rounds, read_threads
from seatrial.judge.evidence import READ_BYTES, Evidence, Piece, absent, matches, text_piece
from seatrial.judge.rubric import Rubric
from seatrial.messages import AnyItem, Message, Reasoning, Refusal, ToolCall, ToolResult, as_text, plain_words
from seatrial.model.job import LockedTask
from seatrial.model.loaded_task import Task
from seatrial.model.record import CHANGES, FileChanges, TrialRecord
from seatrial.store.job_store import JobStore, StoredRevision
from seatrial.tasks.load import load_task
from seatrial.tasks.locked import task_trouble, unchanged_task
from seatrial.trajectories.reading import read_messages
from seatrial.trajectories.threads import Thread
from seatrial.trial.rounds import Round, rounds_of
from seatrial.trial.rubric_verifier import change_lines
from seatrial.untrusted.files import BoundedContent, read_below, read_bounded

_MOST_FILES = 100
_MOST_CHANGES_BYTES = 2**24
_CONVERSATION_BYTES = 2**20
_CHANGED = " (the task's files have changed since the trial ran)"


@dataclass(frozen=True, slots=True)
class JudgedTask:
    """A task as judges may know it; `task` is None where its folder cannot be used, and `trouble` says why."""

    task: Task | None
    trouble: str = ""
    changed: bool = False

    @property
    def rounds(self) -> tuple[Round, ...]:
        return rounds_of(self.task) if self.task else ()


def judged_task(locked: LockedTask, *, is_own: bool) -> JudgedTask:
    """The task of a job, of which `is_own` says whether this user made it."""
    if (task := unchanged_task(locked)) is not None:
        return JudgedTask(task)
    trouble = task_trouble(locked)
    if is_own and locked.root:
        try:
            return JudgedTask(load_task(locked.root), changed=True)
        except SeatrialError as error:
            trouble = str(error)
    return JudgedTask(None, trouble or f"The task at {locked.root} cannot be read.")


def gather(
    store: JobStore, revisions: Sequence[StoredRevision], task: JudgedTask, rubric: Rubric, references: Sequence[Piece]
) -> Evidence:
    """All that a judge may see of a trial by a rubric, of the newest of its revisions."""
    record, folder = revisions[-1].record, revisions[0].folder
    rounds = folders_of_rounds(record)
    readers: dict[str, Callable[[], Iterator[Piece]]] = {
        "instruction": lambda: _instruction(task),
        "reference": lambda: iter(references),
        "output": lambda: _output(store.path, folder, record, rounds, rubric.all_files or _expected(task)),
        "conversation": lambda: _conversation(folder, rounds),
        "changes": lambda: _changes(folder),
        "verifier": lambda: _verifier(record),
    }
    wanted = rubric.all_evidence
    pieces = [piece for kind, read in readers.items() if kind in wanted for piece in read()]
    return Evidence(tuple(pieces), rubric.digest)


def gather_answer(
    task: JudgedTask, files: Mapping[str, BoundedContent], rubric: Rubric, references: Sequence[Piece]
) -> Evidence:
    """What a judge would see of a trial that had left these files, by their paths in the sandbox, and nothing else."""
    patterns = rubric.all_files or _expected(task)
    found = [Piece("output", path, each) for path, each in files.items()]
    chosen = [each for each in found if not patterns or any(matches(each.name, pattern) for pattern in patterns)]
    lacking = [pattern for pattern in patterns if not any(matches(each.name, pattern) for each in chosen)]
    pieces = {
        "instruction": [*_instruction(task)],
        "reference": [*references],
        "output": [*chosen, *(absent("output", each, "the agent left no such file") for each in lacking)],
    }
    unknown = [absent(kind, kind, "it is not known") for kind in sorted(rubric.all_evidence - pieces.keys())]
    wanted = [piece for kind, each in pieces.items() if kind in rubric.all_evidence for piece in each]
    return Evidence((*wanted, *unknown), rubric.digest)


def _instruction(task: JudgedTask) -> Iterator[Piece]:
    if task.task is None:
        yield absent("instruction", "instruction.md", f"it is not known: {task.trouble}")
    for each in task.rounds:
        name = (each.layout.instruction or "instruction.md") + _CHANGED * task.changed
        try:
            yield text_piece("instruction", name, each.instruction().decode("utf-8", "replace"))
        except (OSError, ValueError) as error:
            yield absent("instruction", name, f"it cannot be read: {error}")


def _expected(task: JudgedTask) -> tuple[str, ...]:
    """Where the task expects its output."""
    return tuple(dict.fromkeys(each.judged.output.path for each in task.rounds if each.judged.output.path))


# Output files: those that the agent published, and those in the end state of the last round that kept one.


def _output(
    job: Path, folder: Path, record: TrialRecord, rounds: Sequence[str], patterns: Sequence[str]
) -> Iterator[Piece]:
    """The files that fit a pattern; without patterns, all that the agent added or changed."""
    if not patterns:
        changed = _read_changes(folder)
        patterns = (*changed.added, *changed.modified)[:_MOST_FILES] if changed else ()
    found = dict(_published(folder, record))
    state = next((each for each in reversed(rounds) if has_end_state(job, folder.relative_to(job) / each)), None)
    trouble = _why_not_kept(record)
    if state is not None:
        try:
            left, more = find_in_end_state(
                job,
                folder.relative_to(job) / state,
                lambda path: any(matches(path, pattern) for pattern in patterns),
                READ_BYTES,
                _MOST_FILES,
            )
            found = {path: _left(path, each) for path, each in left.items()} | found
            if more:
                found["…"] = absent("output", "…", f"there are more files than {_MOST_FILES}")
            trouble = "the agent left no such file"
        except StoreError as error:
            trouble = f"the end state cannot be read: {error}"
    for pattern in patterns:
        if not any(matches(path, pattern) for path in found):
            found[pattern] = absent("output", pattern, trouble)
    yield from found.values()


def _left(path: str, left: LeftFile) -> Piece:
    if left.content is None:
        return absent("output", path, left.note)
    return Piece("output", path, left.content)


def _published(folder: Path, record: TrialRecord) -> Iterator[tuple[str, Piece]]:
    for each in record.artifacts[:_MOST_FILES]:
        _, found, name = each.path.partition("artifacts/")
        if not found or name == "manifest.json":
            continue
        path = f"/logs/artifacts/{name}"
        try:
            yield path, Piece("output", path, read_bounded(Path(each.path), folder, READ_BYTES))
        except StoreError as error:
            yield path, absent("output", path, str(error))


def _why_not_kept(record: TrialRecord) -> str:
    states = [record.end_state, *(step.end_state for step in record.steps)]
    lost = [state.reason for state in states if state and not state.kept and state.reason]
    return f"the end state was not kept: {lost[0]}" if lost else "the end state was not kept"


# What the agent said and did.


def _conversation(folder: Path, rounds: Sequence[str]) -> Iterator[Piece]:
    for each in rounds:
        name = f"{each}/{CALLS_FILE}".lstrip("/")
        try:
            threads = read_threads(folder, each)
        except (StoreError, ValueError) as error:
            yield absent("conversation", name, f"it is not known: {error}")
            continue
        for thread in threads:
            title = f"{thread.name}{f' of {each}' if each else ''}"
            yield text_piece("conversation", title, "\n\n".join(_turns(thread)), _CONVERSATION_BYTES)


def _turns(thread: Thread) -> Iterator[str]:
    for each in thread.calls:
        for item in (*read_messages(each.new), *each.answer):
            if turn := _turn(item):
                yield turn


def _turn(item: AnyItem) -> str:
    """A turn as text. What the model thought is left out: agents differ in what their providers show of it."""
    match item:
        case Message():
            return f"{item.role}: {item.text}"
        case ToolCall():
            return f"tool call {item.name}: {as_text(item.arguments)}"
        case ToolResult():
            return f"tool result{' (failed)' * item.failed}: {plain_words(item.parts)}"
        case Refusal():
            return f"assistant refuses: {item.text}"
        case Reasoning():
            return ""
        case _:
            return f"{item.role} ({item.kind}): {json.dumps(item.value, default=str)}"


def _read_changes(folder: Path) -> FileChanges | None:
    try:
        return FileChanges.model_validate_json(read_below(Path(CHANGES), folder, _MOST_CHANGES_BYTES))
    except (StoreError, ValidationError):
        return None


def _changes(folder: Path) -> Iterator[Piece]:
    found = _read_changes(folder)
    if found is None:
        yield absent("changes", CHANGES, "it is not known what the agent changed")
        return
    yield text_piece("changes", CHANGES, "\n".join(change_lines(found)) or "nothing")


def _verifier(record: TrialRecord) -> Iterator[Piece]:
    evaluation = record.evaluation
    if evaluation is None:
        yield absent("verifier", "details", "the trial was never graded")
        return
    found = {
        "reward": evaluation.reward,
        "details": evaluation.breakdown,
        "errors": evaluation.validity.errors,
    }
    yield text_piece("verifier", "details", json.dumps(found, indent=1, ensure_ascii=False))
