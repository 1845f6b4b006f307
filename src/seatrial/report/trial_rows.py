"""Trials as rows for other programs: CSV, JSON Lines and Parquet, all with the same columns.

CSV is for spreadsheets and data frames: a header, every text in quotes and none of it a formula. Parquet has typed
columns and needs pyarrow, which is an extra. All text is UTF-8.
"""

import csv
import datetime as dt
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

import orjson

from seatrial.analysis.arms import COLUMNS, Arm, ColumnKind, Row, trial_rows
from seatrial.analysis.tables import no_formula
from seatrial.errors import UsageError
from seatrial.report.text import utf8_text, utf8_value


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
        return no_formula(utf8_text(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list | dict):
        return orjson.dumps(utf8_value(value)).decode() if value else ""
    return value


def write_jsonl(arms: Sequence[Arm], out: BinaryIO) -> None:
    """Write a line for each trial. What is not known is null."""
    names = [column.name for column in COLUMNS]
    for row in trial_rows(arms):
        line = {name: utf8_value(value) for name, value in zip(names, row, strict=True)}
        out.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


_ROWS_AT_ONCE = 10_000


def write_parquet(arms: Sequence[Arm], out: BinaryIO) -> None:
    """Write a row for each trial, some thousands at a time. Raises UsageError where pyarrow is not installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and not everybody has it
        import pyarrow.parquet as pq  # noqa: PLC0415 - likewise
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; install it with: pip install 'seatrial[parquet]'") from error

    schema = pa.schema([(column.name, _types(pa)[column.kind]) for column in COLUMNS])
    rows = trial_rows(arms)
    with pq.ParquetWriter(out, schema) as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.table(_arrays(pa, some, schema), schema=schema))


def _types(pa: Any) -> dict[ColumnKind, Any]:
    return {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
        "time": pa.timestamp("us", tz="UTC"),
        "texts": pa.list_(pa.string()),
        "numbers": pa.list_(pa.float64()),
        "shares": pa.map_(pa.string(), pa.float64()),
    }


def _arrays(pa: Any, rows: Sequence[Row], schema: Any) -> list[Any]:
    values = zip(COLUMNS, schema, zip(*rows, strict=True), strict=True)
    return [pa.array([_value(column.kind, each) for each in cells], type=field.type) for column, field, cells in values]


def _value(kind: ColumnKind, value: Any) -> Any:
    if value is None:
        return None
    if kind == "time":
        return dt.datetime.fromisoformat(value)
    if kind == "shares":
        return list(utf8_value(value).items())
    return utf8_value(value)
