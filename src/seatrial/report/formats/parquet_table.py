"""Trials as Parquet, with typed columns. It needs pyarrow, which is an extra."""

import datetime as dt
from collections.abc import Sequence
from itertools import islice
from typing import Any, BinaryIO

from seatrial.analysis.arms import Arm
from seatrial.analysis.columns import COLUMNS, ColumnKind, Row, trial_rows
from seatrial.errors import UsageError
from seatrial.report.formats.clean_text import utf8_value

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
