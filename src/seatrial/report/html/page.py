"""The whole page: sections in a template, with its own style, script and list of trials, and nothing from outside."""

import base64
import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import orjson

from seatrial.analysis.arms import Arm, in_order
from seatrial.analysis.figures import OUTCOMES, SCORED
from seatrial.model.outcome import format_reward
from seatrial.report.document import ReportDocument, headline
from seatrial.report.html.more_sections import compared_link, comparing_section, cost_section, times_section
from seatrial.report.html.parts import LONGEST_NOTE, PageSection, marks_of
from seatrial.report.html.sections import (
    agents_section,
    behaviour_section,
    denominators_section,
    failures_section,
    judges_section,
    people_section,
    tasks_section,
)
from seatrial.report.html.templates import REPORT, open_templates
from seatrial.report.text import counted, utf8_text
from seatrial.store.index import TrialEntry

# The last sections: what was computed how, and the commands that compute it again.


def methods_section(document: ReportDocument) -> PageSection:
    """What exactly was computed."""
    return PageSection("methods", "How was this computed?", (" ".join(document.methods),))


def reproduce_section(document: ReportDocument) -> PageSection:
    """Commands that make this report, and that show what is behind it."""
    options, folders = document.options, [str(job.path) for job in document.jobs]
    report = ["seatrial", "report", *folders, "-o", "report.html"]
    for name, value, usual in (("level", options.level, 0.95), ("seed", options.seed, 0)):
        report += [f"--{name}", str(value)] if value != usual else []
    report += [
        f"--{name}={value}" for name, value in (("title", options.title), ("baseline", options.baseline)) if value
    ]
    report += ["--family"] if options.clusters == "family" else []
    report += ["--force"] if options.comparability == "forced" else []
    report += [f"--where={each}" for each in options.filters]
    commands = [report, *(["seatrial", "show", folder] for folder in folders)]
    said = "The same jobs and options give the same bytes."
    return PageSection("again", "How is it made again?", (said,), commands=tuple(shlex.join(each) for each in commands))


# The list of trials as the page carries it: columns in place of rows, and each name once.
#
# A hundred thousand trials take some 2.5 MB that way, and a browser reads them in a moment.


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
        "reward": _column((_reward(trial) for trial in entries), format_reward),
        "time": _column((trial.duration_sec for trial in entries), "{:.3g}".format),
        "cost": _column((trial.cost_usd for trial in entries), "{:.4g}".format),
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


def _column(values: Iterable[float | None], write: Callable[[float], str]) -> list[float | None]:
    """Values with the digits that are shown; nothing at all where no value is known."""
    column = [*values]
    short = {value: None if value is None else _number(write(value)) for value in {*column}}
    return [short[value] for value in column] if short.keys() - {None} else []


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


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


def write_html(document: ReportDocument, out: BinaryIO) -> None:
    """Write the page of a document."""
    out.write(render_html(document, document.folder))


def render_html(document: ReportDocument, folder: Path | None = None) -> bytes:
    """The page of a document. `folder` is where it will lie, to link to the folders of trials from there."""
    style, script = _file("report.css"), _file("report.js")
    page = (
        open_templates(REPORT, between_lines=" ")
        .get_template("report.html.jinja")
        .render(
            document=document,
            headline=headline(document),
            lead=compared_link(document.lead.comparison, "common") if document.lead else None,
            covered=_covered(document),
            sections=page_sections(document),
            policy=_policy(style, script),
            style=style,
            script=script,
            data=trial_data(document.arms, folder),
            folders=[shlex.quote(str(job.path)) for job in document.jobs],
        )
    )
    return page.encode("utf-8", "replace")


def _file(name: str) -> str:
    return (files("seatrial.report.html") / name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """What a browser may do for this page: its own style and script, known by their digests, and nothing else."""
    own = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return f"default-src 'none'; style-src 'sha256-{own[0]}'; script-src 'sha256-{own[1]}'; base-uri 'none'"


def page_sections(document: ReportDocument) -> list[PageSection]:
    """What the page says, part by part."""
    several = [comparing_section(document)] if document.comparisons else []
    reviewed = [people_section(document, document.people)] if document.people else []
    return [
        agents_section(document),
        tasks_section(document),
        *several,
        cost_section(document),
        times_section(document),
        failures_section(document),
        *([behaviour_section(document)] if document.behaviour else []),
        *reviewed,
        *([judges_section(document)] if document.judges else []),
        denominators_section(document),
        methods_section(document),
        reproduce_section(document),
    ]


def _covered(document: ReportDocument) -> str:
    """What the report is about, on one line."""
    trials = sum(len(arm.trials) for arm in document.arms)
    parts = [
        counted(len(document.jobs), "job"),
        counted(len(document.arms), "agent"),
        counted(len(document.heat.tasks), "task"),
        counted(trials, "trial"),
    ]
    if document.period:
        first, last = (moment.replace("T", " ") for moment in (document.period.first, document.period.last))
        parts.append(f"started {first} to {last}" if first != last else f"started {first}")
    return " · ".join(parts)
