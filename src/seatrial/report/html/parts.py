"""What sections of the page are made of: words, tables whose numbers lead to trials, and pictures with their tables."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal
from urllib.parse import parse_qsl, quote

from seatrial.analysis.arms import Arm
from seatrial.analysis.failures import is_unclassified
from seatrial.analysis.figures import OUTCOMES, SCORED
from seatrial.analysis.tables import Table, interval
from seatrial.model.outcome import format_mean
from seatrial.model.review import ReviewEntry, not_taken_back
from seatrial.report.text import harmless, utf8_text
from seatrial.review.verdicts import ReviewState, is_decided, review_of
from seatrial.stats.estimates import Estimate
from seatrial.store.index import TrialEntry


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell of a table; `target` leads to the trials behind it, and a `note` stands below it, such as an interval."""

    text: str
    target: str | None = None
    kind: Literal["number", "name"] = "number"
    note: str = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table with a caption; the first cell of a row names it. `rest` says what is not shown, if anything.

    A `folded` one is opened by its reader.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[PageCell, ...], ...]
    rest: str = ""
    state: Literal["open", "folded"] = "open"


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A picture, what it shows in words, and the table of the same numbers."""

    svg: str
    caption: str
    table: PageTable


@dataclass(frozen=True, slots=True)
class PageSection:
    """A part of the page with a heading; `key` is its address."""

    key: str
    title: str
    paragraphs: tuple[str, ...] = ()
    figures: tuple[PageFigure, ...] = ()
    tables: tuple[PageTable, ...] = ()
    commands: tuple[str, ...] = ()


def name_cell(text: str, target: str | None = None) -> PageCell:
    """A cell with words."""
    return PageCell(harmless(text), target, "name")


def number_cell(text: str, target: str | None = None) -> PageCell:
    """A cell with a number. A dash stands for none, and leads nowhere."""
    return PageCell(text, None if text == "-" else target)


def estimate_cell(estimate: Estimate | None, target: str | None = None) -> PageCell:
    """A cell with an estimate, and its interval below it; a dash where there is none."""
    if estimate is None:
        return PageCell("-")
    return PageCell(format_mean(estimate.value), target, note=interval(estimate))


def page_table(caption: str, table: Table, targets: Sequence[Sequence[str]] = ()) -> PageTable:
    """A table on the page, with a link for each number of each row if there are `targets`."""
    rows = []
    for place, row in enumerate(table.rows):
        names, numbers = row[: table.names], row[table.names :]
        leads = targets[place] if targets else [None] * len(numbers)
        rows.append((*map(name_cell, names), *map(number_cell, numbers, leads)))
    return PageTable(caption, tuple(table.columns), tuple(rows))


# Links from numbers to the trials they are made of: fragments that the page's own list of trials understands.


_LINKED = re.compile(r'(?<= href=")#trials(?:\?([^"]*))?(?=")')

Aim = Callable[[Mapping[str, str]], str]
"""Where the trials with some values are, on pages that have no list of all of them."""

SCORED_OUTCOMES = ",".join(outcome for outcome in OUTCOMES if outcome in SCORED)

LONGEST_NOTE = 200
"""Of what is said beside a trial, the list of trials has no more characters, so a link asks for no more."""


def trials_link(arm: Arm | None = None, **wanted: str) -> str:
    """A fragment that shows the trials of an arm, or of all, with these values of `task`, `outcome`, `tag`, `trial`.

    An `agent` that is no arm's label is the name of one that several arms have. `against` is the label of a second arm
    whose trials are shown too, and `tasks` of `common`, `won` or `lost` leaves the tasks that both were judged on, or
    those of them that the first one did better or worse at.
    """
    chosen = {"agent": arm.label, **wanted} if arm else wanted
    if "tag" in chosen:
        chosen["tag"] = chosen["tag"][:LONGEST_NOTE]
    pairs = [f"{key}={quote(utf8_text(value), safe=',:')}" for key, value in chosen.items()]
    return f"#trials?{'&'.join(pairs)}" if pairs else "#trials"


def aimed(section: PageSection, aim: Aim) -> PageSection:
    """A section whose links, in tables and pictures, lead to where another page has the trials."""
    figures = tuple(
        replace(each, svg=_LINKED.sub(partial(_attribute, aim), each.svg), table=_table(each.table, aim))
        for each in section.figures
    )
    return replace(section, figures=figures, tables=tuple(_table(each, aim) for each in section.tables))


def _table(table: PageTable, aim: Aim) -> PageTable:
    return replace(table, rows=tuple(tuple(_cell(cell, aim) for cell in row) for row in table.rows))


def _cell(cell: PageCell, aim: Aim) -> PageCell:
    return replace(cell, target=aim(_chosen(cell.target))) if cell.target else cell


def _attribute(aim: Aim, found: re.Match[str]) -> str:
    return html.escape(aim(_chosen(html.unescape(found[0]))))


def _chosen(fragment: str) -> dict[str, str]:
    """What `trials_link` wrote into a fragment."""
    return dict(parse_qsl(fragment.partition("?")[2], keep_blank_values=True))


# The marks of a trial: what links ask for, and what a list says beside it.


UNCLASSIFIED = "unclassified"
"""It is asked for by links and shown nowhere: most failures that nobody has looked at have it."""

REVIEWED = "reviewed"
"""People have a verdict on it; not where they disagree, or all defer."""

REVIEWED_BY_SEVERAL = "reviewed by several"
STEP = "step: "
_UNDECIDED: dict[ReviewState, str] = {"needs": "disagree", "contested": "contested", "open": "deferred"}


def people_mark(verdict: str) -> str:
    """The mark of trials that people pass, or fail."""
    return f"people: {verdict}"


def marks_of(trial: TrialEntry, entries: Sequence[ReviewEntry] = ()) -> tuple[str, ...]:
    """What links ask for: classified failures, warnings, a disputed verdict, the step that failed, and `entries`,
    which is what people say of it."""
    step = (f"{STEP}{trial.failed_step}",) if trial.failed_step else ()
    disputed = ("disputed",) if trial.disputed_reward is not None else ()
    unknown = (UNCLASSIFIED,) if _is_unexplained(trial) else ()
    return (*trial.tags, *trial.warnings, *disputed, *step, *unknown, *(_people(trial, entries) if entries else ()))


def notes_of(trial: TrialEntry, entries: Sequence[ReviewEntry] = ()) -> tuple[str, ...]:
    """What a list says beside a trial: its marks, and why it could not be run."""
    marks = tuple(mark for mark in marks_of(trial, entries) if mark != UNCLASSIFIED)
    return (*marks, trial.failure) if trial.failure else marks


def _is_unexplained(trial: TrialEntry) -> bool:
    return trial.outcome in SCORED and trial.outcome != "pass" and is_unclassified(trial.tags)


def _people(trial: TrialEntry, entries: Sequence[ReviewEntry]) -> tuple[str, ...]:
    if not not_taken_back(entries):
        return ()
    found = review_of(trial.trial_id, entries)
    several = (REVIEWED_BY_SEVERAL,) if sum(map(is_decided, found.first.values())) > 1 else ()
    if found.verdict is None:
        return (*several, people_mark(_UNDECIDED[found.state]))
    return (REVIEWED, *several, people_mark(found.verdict.value))
