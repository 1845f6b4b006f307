"""Comma- or tab-separated values as a table: the first rows, with those marked that do not fit the header."""

import csv
import io
from collections.abc import Iterator
from itertools import islice

from markupsafe import Markup

from seatrial.report.text import counted
from seatrial.view.rendering.bounded import BoundedContent
from seatrial.view.rendering.table_parts import scrolling_table
from seatrial.view.rendering.text import clean, show_text

_MAX_ROWS, _MAX_COLUMNS, _MAX_CELL = 200, 60, 400


def show_rows(content: BoundedContent, delimiter: str) -> tuple[Markup, str]:
    """The table, and a note on what is left out or odd; as text if it cannot be read as rows."""
    text = content.head.decode("utf-8", "replace").removeprefix("\ufeff")
    if not content.whole:
        text = text.rpartition("\n")[0]
    try:
        rows = list(islice(_rows(text, delimiter), _MAX_ROWS + 2))
    except csv.Error as error:
        return show_text(content.text()), f"shown as text: {error}"
    if not rows:
        return show_text(content.text()), "no row is in it"
    body = rows[1 : _MAX_ROWS + 1]
    odd = sum(len(row) != len(rows[0]) for row in body)
    cut = not content.whole or len(rows) > _MAX_ROWS + 1
    notes = [
        f"the first {len(body)} rows" if cut else counted(len(body), "row"),
        f"the first {_MAX_COLUMNS} of {len(rows[0]):,} columns" if len(rows[0]) > _MAX_COLUMNS else "",
        f"{odd} of them with more or fewer fields than the header's {len(rows[0])}" if odd else "",
    ]
    return scrolling_table("Rows", _cells(rows[0]), map(_cells, body)), ", ".join(filter(None, notes))


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    yield from filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True))


def _cells(row: list[str]) -> list[str]:
    cut = (cell if len(cell) <= _MAX_CELL else f"{cell[:_MAX_CELL]}…" for cell in row[:_MAX_COLUMNS])
    return [clean(cell) for cell in cut]
