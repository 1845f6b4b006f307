"""How every command prints: tables and lines that fit the screen, colours, sizes, and the problems of a task.

On a terminal text is wrapped and coloured; in a pipe a row is one line, for programs to read.
"""

import os
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TextIO

import click
from pydantic import BaseModel

from seatrial.analysis.tables import Table
from seatrial.model.loaded_task import Problem
from seatrial.report.text import harmless, shown_width

# Tables: columns are aligned, numbers are never cut, text is wrapped where the screen ends.

GAP = "  "
"""What stands between two columns."""

_NARROWEST = 10
"""No text column is made narrower than this. A table that is still too wide is wrapped by the terminal, not cut."""

_UNITS = ("B", "K", "M", "G", "T")
_NUMBER = re.compile(r"(?:[\d.,%/():<+ -]|\b(?:s|min|h|of|or|to|USD|[kMG]i?B)\b)*")
_WORD = re.compile("( *)([^ ]+)")


class Cell(NamedTuple):
    """One line of a cell: its text, and the spaces that put it in its place."""

    text: str
    before: str
    after: str


Line = tuple[Cell, ...]


def lay_out(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[list[Line]]:
    """The lines of each row, the header first. Without a width, as in a pipe, nothing is wrapped."""
    numbers = [index > 0 and all(_NUMBER.fullmatch(row[index]) for row in rows) for index in range(len(columns))]
    widths = [max(shown_width(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
    if width is not None:
        widths = _fitted(widths, numbers, width)
    return [[*_lines(row, widths, numbers)] for row in (columns, *rows)]


def _fitted(widths: list[int], numbers: list[bool], room: int) -> list[int]:
    """Widths that fit into the room as far as possible, taken from the widest columns of text."""
    fitted = list(widths)
    excess = sum(fitted) + len(GAP) * (len(fitted) - 1) - room
    while excess > 0:
        texts = [index for index, number in enumerate(numbers) if not number and fitted[index] > _NARROWEST]
        if not texts:
            break
        widest = max(texts, key=lambda index: fitted[index])
        others = [fitted[index] for index in texts if fitted[index] < fitted[widest]]
        taken = min(excess, fitted[widest] - max([_NARROWEST, *others]))
        fitted[widest] -= max(1, taken)
        excess -= max(1, taken)
    return fitted


def _lines(row: Sequence[str], widths: list[int], numbers: list[bool]) -> Iterator[Line]:
    parts = [_wrapped(text, width) for text, width in zip(row, widths, strict=True)]
    for texts in zip_longest(*parts, fillvalue=""):
        yield tuple(map(_cell, texts, widths, numbers))


def _cell(text: str, width: int, number: bool) -> Cell:
    space = " " * (width - shown_width(text))
    return Cell(text, space, "") if number else Cell(text, "", space)


def _wrapped(text: str, width: int) -> list[str]:
    return [text] if shown_width(text) <= width else wrapped(text, width) or [""]


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """A text in lines of that many columns, broken between words; only a word that is wider is broken itself."""
    if all(map(_takes_one_column, text)):
        return textwrap.wrap(text, width, subsequent_indent=indent, break_on_hyphens=False)
    lines = [""]
    for spaces, word in _WORD.findall(text):
        if shown_width(f"{lines[-1]}{spaces}{word}") <= width:
            lines[-1] += spaces + word
            continue
        if lines[-1].strip():
            lines.append(indent)
        for character in word:  # some take two columns, and some none
            if shown_width(lines[-1] + character) > width:
                lines.append(indent)
            lines[-1] += character
    return lines


def _takes_one_column(character: str) -> bool:
    return character.isascii() or not (
        unicodedata.combining(character) or unicodedata.east_asian_width(character) in "WF"
    )


# Colours: none in a pipe, and none for people who set NO_COLOR.

OUTCOME_COLOURS: Mapping[str, str] = {
    "pass": "green",
    "partial": "yellow",
    "fail": "red",
    "invalid_output": "red",
    "no_output": "red",
    "verifier_error": "magenta",
    "infrastructure_error": "magenta",
    "cancelled": "magenta",
}
TYPEWRITERS = ("dumb", "unknown")
"""Terminals, by their TERM, that have no colours and on which nothing can be drawn over."""
SEVERITY_COLOURS: Mapping[str, str] = {"error": "red", "warning": "yellow", "note": "cyan"}


def paint(text: str, colour: str | None = None, *, bold: bool = False) -> str:
    """Text in a colour. `click.echo` takes the colour out again where the output is no terminal."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in TYPEWRITERS
    if plain or not (colour or bold):
        return text
    return click.style(text, fg=colour, bold=bold or None)


def paint_outcome(text: str) -> str:
    """The name of an outcome in its colour; anything else as it is."""
    return paint(text, OUTCOME_COLOURS.get(text))


def screen_width() -> int | None:
    """The columns of the terminal that standard output is; None in a pipe or a file."""
    is_screen = sys.stdout is not None and sys.stdout.isatty()
    return shutil.get_terminal_size().columns if is_screen else None


def can_draw(stream: TextIO | None) -> bool:
    """Whether what is printed there can be drawn over, as bars and live displays do."""
    return stream is not None and stream.isatty() and os.environ.get("TERM") not in TYPEWRITERS


def show_table(title: str, table: Table) -> None:
    """A table with aligned columns. On a terminal it has a title and fits the screen; in a pipe a row is one line."""
    width = screen_width()
    if width is not None and title:
        click.echo(paint(title, "cyan"))
    header, *body = lay_out(table.columns, [tuple(map(harmless, row)) for row in table.rows], width)
    for line in header:
        click.echo(paint(_joined(line), bold=True))
    for row in body:
        for line in row:
            click.echo(_joined(line))


def _joined(line: Line) -> str:
    return GAP.join(f"{cell.before}{paint_outcome(cell.text)}{cell.after}" for cell in line).rstrip()


def show_line(text: str) -> None:
    """A line of words. On a terminal it is broken between words where the screen ends; in a pipe it is one line."""
    text = harmless(text)
    if (width := screen_width()) is not None:
        text = "\n".join(wrapped(text, max(20, width), "    "))
    click.echo(text)


def show_size(size: int) -> str:
    """A size with three digits and its unit."""
    value, unit = float(size), 0
    while value >= 1000 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.3g} {_UNITS[unit]}{'' if unit == 0 else 'iB'}"


def show_warning(text: str) -> None:
    """A line about something that was passed over, for people to know and not for programs to read."""
    click.echo(f"Warning: {harmless(text)}", err=True)


def show_problem(owner: str, problem: Problem) -> None:
    """One problem as a line, and what to do about it as another."""
    severity = paint(problem.severity, SEVERITY_COLOURS[problem.severity])
    click.echo(f"{owner}: {severity}[{problem.code}] {problem}")
    if problem.fix:
        click.echo(f"    fix: {problem.fix}")


def show_json(value: BaseModel) -> None:
    """A stored type exactly as it is stored."""
    click.echo(value.model_dump_json(indent=2))
