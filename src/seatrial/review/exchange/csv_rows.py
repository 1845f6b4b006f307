"""Reviews as CSV: a row each, for spreadsheets. No cell is a formula, and none is changed by going there and back.

A text that a spreadsheet would take for a formula gets an apostrophe before it, as in every table of ours; here so does
one that is empty or begins with an apostrophe, so that the first apostrophe of a cell is never the reviewer's own.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from typing import Any

from seatrial.analysis.spreadsheet import FORMULA
from seatrial.model.review import ReviewEntry
from seatrial.review.exchange.api import Read
from seatrial.review.exchange.rows import FIELDS, BadRow, from_row, to_row

_JSON = {
    "categories": 'a list such as ["units"], or words with commas between them',
    "blind": "true or false",
    "seconds": "a number",
    "probability": "a number",
    "revision": "a whole number",
}
"""The columns that hold no text, and what they hold."""

_NEEDED = ("trial_id", "reviewer_id", "timestamp", "judgment")


def write_csv_rows(entries: Iterable[ReviewEntry]) -> bytes:
    """The file with a row for each entry."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(FIELDS)
    for entry in entries:
        row = to_row(entry)
        writer.writerow([_cell(row[name]) if name in row else "" for name in FIELDS])
    return out.getvalue().encode()


def read_csv_rows(content: bytes, _: str) -> Iterator[Read]:
    """What each row says, by the line that it ends on. Columns may be in any order, and those not needed may lack.

    Spreadsheets put semicolons or tabs between cells in some countries; what is between the names of columns counts.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield Read("the file", f"is no UTF-8 ({error.reason} at byte {error.start}); save it as CSV UTF-8")
        return
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a note may be longer than Python's usual cell
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        header = next(reader, [])
        missing = [name for name in _NEEDED if name not in header]
        unknown = [name for name in header if name not in FIELDS]
        if missing or unknown:
            wrong = f"has no column {missing[0]!r}" if missing else f"has an unknown column {unknown[0]!r}"
            yield Read("line 1", f"{wrong}; the columns are {', '.join(FIELDS)}")
            return
        for cells in reader:
            if cells:
                yield Read(f"line {reader.line_num}", _read(header, cells))
    except csv.Error as error:
        yield Read(f"line {reader.line_num}", f"is no CSV: {error}")


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return max(",;\t", key=header.count)


def _read(header: list[str], cells: list[str]) -> ReviewEntry | str:
    if len(cells) != len(header):
        return f"has {len(cells)} cells, expected {len(header)}"
    try:
        return from_row({name: _value(name, cell) for name, cell in zip(header, cells, strict=True) if cell})
    except BadRow as error:
        return str(error)


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return f"'{value}" if not value or value.startswith((*FORMULA, "'")) else value
    return json.dumps(value, ensure_ascii=False)


def _value(name: str, cell: str) -> Any:
    if name == "categories" and not cell.startswith("["):
        return [each.strip() for each in cell.split(",") if each.strip()]
    if name not in _JSON:
        return cell.removeprefix("'")
    try:
        return json.loads(cell.lower() if name == "blind" else cell)
    except (ValueError, RecursionError):
        raise BadRow(f"{name}: found {cell[:80]!r}, expected {_JSON[name]}") from None
