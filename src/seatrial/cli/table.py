"""How the cells of a table are laid out: columns aligned, numbers never cut, and text wrapped where the screen ends.

Values in, lines out; nothing here prints.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

GAP = "  "
"""What stands between two columns."""

_NARROWEST = 10
"""No text column is made narrower than this. A table that is still too wide is wrapped by the terminal, not cut."""

_NUMBER = re.compile(r"(?:[\d.,%/():+ -]|\b(?:s|min|h|of|or|to|USD|[kMG]i?B)\b)*")


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
    widths = [max(_length(row[index]) for row in (columns, *rows)) for index in range(len(columns))]
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
    space = " " * (width - _length(text))
    return Cell(text, space, "") if number else Cell(text, "", space)


def _wrapped(text: str, width: int) -> list[str]:
    if _length(text) <= width:
        return [text]
    return textwrap.wrap(text, width, break_on_hyphens=False) or [""]


def _length(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - slow to import; only characters two columns wide need it

    return cell_len(text)
