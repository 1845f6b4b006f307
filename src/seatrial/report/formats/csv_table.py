"""Trials as CSV, for spreadsheets and data frames: UTF-8, a header, every text in quotes and none of it a formula."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import orjson

from seatrial.analysis.arms import Arm
from seatrial.analysis.columns import COLUMNS, trial_rows
from seatrial.analysis.spreadsheet import FORMULA
from seatrial.report.formats.clean_text import utf8_text, utf8_value


def write_csv(arms: Sequence[Arm], out: BinaryIO) -> None:
    """Write a row for each trial. Lists and mappings are JSON; what is not known is an empty cell."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=False)
    try:
        writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
        writer.writerow([column.name for column in COLUMNS])
        writer.writerows(_cells(arms))
    finally:
        text.detach()


def _cells(arms: Sequence[Arm]) -> Iterator[list[Any]]:
    return ([_cell(value) for value in row] for row in trial_rows(arms))


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return plain_cell(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list | dict):
        return orjson.dumps(utf8_value(value)).decode() if value else ""
    return value


def plain_cell(text: str) -> str:
    """A text that no spreadsheet takes for a formula: one that begins like one gets an apostrophe before it."""
    text = utf8_text(text)
    return f"'{text}" if text.startswith(FORMULA) else text
