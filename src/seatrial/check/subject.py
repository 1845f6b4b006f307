"""A task as checks see it: its instruction, its small test files, the end states there are, and accepted answers."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from seatrial.check.cases import Subject
from seatrial.check.states import TaskStates
from seatrial.model.job import TrialOptions
from seatrial.model.task import Task
from seatrial.tasks.layout import read_file, walk
from seatrial.trial.rounds import rounds_of

_MOST_BYTES = 512 * 2**10
_MOST_TOGETHER = 8 * 2**20


def describe(
    task: Task, name: str, states: TaskStates, options: TrialOptions, words: Sequence[str], repeats: int
) -> Subject:
    """The subject of the checks of a task."""
    round_ = rounds_of(task)[-1]
    return Subject(
        task=task,
        name=name,
        instruction=round_.instruction().decode(errors="replace"),
        tests=small_files(round_.tests()),
        states={name: state.verdict for name, state in states.made.items()},
        answers=states.answers,
        pass_threshold=options.pass_threshold,
        repeats=repeats,
        options=words,
        trials={name: state.whole for name, state in states.made.items() if state.whole},
        missing=states.missing,
        remarks=states.remarks,
    )


def small_files(folders: Sequence[Path]) -> Mapping[str, bytes]:
    """The files below folders that are laid over each other, without large ones; and not too many of them."""
    found: dict[str, bytes] = {}
    room = _MOST_TOGETHER
    for folder in folders:
        for relative in sorted(walk(str(folder))[0]):
            path = folder / relative
            size = path.lstat().st_size
            if size > _MOST_BYTES or size > room:
                continue
            found[relative] = read_file(path, _MOST_BYTES)[0]
            room -= size
    return found
