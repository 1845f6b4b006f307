"""The list of trials as the page carries it: columns in place of rows, and each name once.

A hundred thousand trials take some 2.5 MB that way, and a browser reads them in a moment.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

from seatrial.analysis.arms import Arm
from seatrial.analysis.columns import in_order
from seatrial.analysis.tally import OUTCOMES, SCORED
from seatrial.report.formats.clean_text import utf8_text
from seatrial.report.html.links import LONGEST_NOTE
from seatrial.report.html.trial_marks import marks_of
from seatrial.store.index import TrialEntry

_MOST_NOTES = 5_000


def trial_data(arms: Sequence[Arm], folder: Path | None) -> str:
    """The trials of arms as JSON that may stand in a page. `folder` is where the page will lie, to link from there.

    `task` has the steps from one trial's task to the next one's, and `runs` how many trials each arm has.
    """
    entries = [trial for arm in arms for trial in in_order(arm.trials)]
    tasks = sorted({trial.task_id for trial in entries})
    notes, noted = _numbered(_marked(arms))
    data = {
        "arms": [_arm(arm, folder) for arm in arms],
        "tasks": [utf8_text(task) for task in tasks],
        "outcomes": OUTCOMES,
        "notes": notes,
        "runs": [len(arm.trials) for arm in arms],
        "task": _steps(entries, {task: index for index, task in enumerate(tasks)}),
        "attempt": [trial.attempt for trial in entries],
        "outcome": [OUTCOMES.index(trial.outcome) for trial in entries],
        "reward": _column((_reward(trial) for trial in entries), 6),
        "time": _column((trial.duration_sec for trial in entries), 3),
        "cost": _column((trial.cost_usd for trial in entries), 4),
        "note": noted if len(notes) > 1 else [],
        "ids": {str(index): utf8_text(trial.trial_id) for index, trial in enumerate(entries) if _has_odd_id(trial)},
    }
    return _for_a_page(orjson.dumps(data).decode())


def _marked(arms: Sequence[Arm]) -> Iterator[tuple[TrialEntry, tuple[str, ...]]]:
    """Trials in the order of the data, with their marks."""
    for arm in arms:
        reviews = arm.job.reviews
        for trial in in_order(arm.trials):
            yield trial, marks_of(trial, reviews.get(trial.trial_id, ()))


def _for_a_page(text: str) -> str:
    """JSON in which no sign can end the element it stands in."""
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _has_odd_id(trial: TrialEntry) -> bool:
    return trial.trial_id != f"{trial.task_id}.{trial.agent}.{trial.attempt}"


def _arm(arm: Arm, folder: Path | None) -> dict[str, str | None]:
    return {
        "label": utf8_text(arm.label),
        "agent": utf8_text(arm.agent),
        "job": utf8_text(str(arm.job.path)),
        "folder": folder_link(arm.job.path / "trials", folder) if folder else None,
    }


def folder_link(target: Path, folder: Path) -> str:
    """The way from a page's folder to another. It begins with a dot, so no name of a folder is taken for a scheme."""
    way = os.path.relpath(target, folder)
    return f"./{quote(os.fsencode(way))}/"


def _reward(trial: TrialEntry) -> float | None:
    return trial.reward if trial.outcome in SCORED else None


def _column(values: Iterable[float | None], digits: int) -> list[float | None]:
    """Values with as many digits as are shown; nothing at all where no value is known."""
    column = [*values]
    short = {value: None if value is None else _short(value, digits) for value in {*column}}
    return [short[value] for value in column] if short.keys() - {None} else []


def _short(value: float, digits: int) -> float:
    """A value with so many digits; but what is nearly 1 is no 1, for as a reward it is no pass."""
    short = float(f"{value:.{digits}g}")
    if short == 1.0 and value < 1.0:
        return value
    return int(short) if short.is_integer() else short


def _steps(trials: Sequence[TrialEntry], places: dict[str, int]) -> list[int]:
    found = [places[trial.task_id] for trial in trials]
    return [place - before for place, before in zip(found, [0, *found], strict=False)]


def _numbered(trials: Iterable[tuple[TrialEntry, tuple[str, ...]]]) -> tuple[list[Any], list[int]]:
    """What is said beside trials, each note once, and which one each trial has.

    Beyond some thousand different ones, why a trial could not be run is left out: often no two of these are the same.
    """
    places: dict[tuple[str, ...], int] = {(): 0}
    found = []
    for trial, marks in trials:
        note = (*marks, trial.failure) if trial.failure else marks
        if note not in places and len(places) < _MOST_NOTES:
            places[note] = len(places)
        elif note not in places and marks not in places and len(places) < 2 * _MOST_NOTES:
            places[marks] = len(places)
        found.append(places.get(note, places.get(marks, 0)))
    return [[utf8_text(part[:LONGEST_NOTE]) for part in note] for note in places], found
