"""What sections of the page are made of: words, tables whose numbers lead to trials, and pictures with their tables."""

from dataclasses import dataclass
from typing import Literal

from seatrial.report.text import harmless
from seatrial.stats.estimates import Estimate


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
    return PageCell(f"{estimate.value:.3f}", target, note=f"{estimate.low:.3f} to {estimate.high:.3f}")
