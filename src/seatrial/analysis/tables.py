"""Tables: what is in one is said once, and each place that shows it escapes it and lays it out in its own way.

Commands print a table, reports have it as Markdown, LaTeX or a part of the page, and notebooks as plain HTML, written
here: it looks right in light and dark, with every stranger's word escaped.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seatrial.model.outcome import format_range
from seatrial.stats.estimates import Estimate

if TYPE_CHECKING:  # most tables are about one job, and need none of it
    from seatrial.stats.paired import Paired

_LONGEST = 200
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\0")
"""A spreadsheet takes a cell that begins with one of these for a formula, and runs it; some leave out a zero byte."""

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of plain text, in which there may be words of strangers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    names: int = 1
    """How many columns, from the first on, are names and words; the others are numbers."""

    def first(self, most: int) -> "Table":
        """The table with only so many of its rows."""
        return replace(self, rows=self.rows[:most])


def html_table(title: str, table: Table, notes: Sequence[str] = ()) -> str:
    """A table for a notebook, with a title above it and notes below; names are to the left, numbers to the right."""
    sides = ["left" if place < table.names else "right" for place in range(len(table.columns))]

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(
            f'<{tag} style="text-align:{side}">{_cell(text)}</{tag}>' for side, text in zip(sides, cells, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in table.rows)
    below = "".join(f"<p>{_cell(note)}</p>" for note in notes)
    above = f"<p><b>{_cell(title)}</b></p>"
    head = line("th", table.columns)
    return f"<div>{above}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"


def _cell(text: str) -> str:
    shown = "".join(character if character.isprintable() else " " for character in text[: _LONGEST + 1])
    return html.escape(shown if len(text) <= _LONGEST else f"{shown[:_LONGEST]}…")


def no_formula(text: str, *more: str) -> str:
    """A text for CSV that no spreadsheet runs: one that begins like a formula, or with `more`, gets an apostrophe."""
    return f"'{text}" if text.startswith((*_FORMULA, *more)) else text


def pairs_table(rows: Sequence[Row]) -> Table:
    """Comparisons for a notebook, a row of `pair_row` each."""
    return Table(("A", "B", "B - A", "interval", "p", "won", "lost", "tasks", "could have seen", "verdict"), rows)


def pair_row(
    labels: tuple[str, str],
    paired: "Paired | None",
    interval: tuple[float, float] | None,
    p_value: float | None,
    verdict: str,
) -> Row:
    """A comparison of two arms; differences are in points of 100."""
    if paired is None or interval is None:
        return (*labels, "-", "-", "-", "0", "0", "0", "-", verdict)
    return (
        *labels,
        f"{100 * paired.difference:+.1f}",
        f"{100 * interval[0]:+.1f} to {100 * interval[1]:+.1f}",
        "-" if p_value is None else f"{p_value:.2g}",
        f"{paired.wins:,}",
        f"{paired.losses:,}",
        f"{paired.tasks:,}",
        f"{100 * paired.detectable:.1f}" if paired.detectable <= 1.0 else "-",
        verdict,
    )


def interval(estimate: Estimate | None) -> str:
    """From where to where a mean may be, a dash for none."""
    return "-" if estimate is None else format_range(estimate.low, estimate.high)


def money(usd: float | None) -> str:
    """An amount of dollars, a dash for one that is not known."""
    return "-" if usd is None else f"${usd:,.2f}" if usd >= 1 else f"${usd:.4f}"
