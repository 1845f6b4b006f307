"""How the cells of a table are laid out: columns aligned, numbers never cut, and text wrapped where the screen ends.

Values in, lines out; nothing here prints.
"""

import re
import textwrap
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from seatrial.report.text import shown_width

GAP = "  "
"""What stands between two columns."""

_NARROWEST = 10
"""No text column is made narrower than this. A table that is still too wide is wrapped by the terminal, not cut."""

_NUMBER = re.compile(r"(?:[\d.,%/():+ -]|\b(?:s|min|h|of|or|to|USD|[kMG]i?B)\b)*")
_WORD = re.compile("( *)([^ ]+)")


@dataclass(frozen=True, slots=True)
class Cell:
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
