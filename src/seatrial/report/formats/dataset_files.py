"""Rows of a dataset as files in a folder: Parquet where pyarrow is installed, JSON lines where it is not."""

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from seatrial.gateway.dialects.fields import dump
from seatrial.report.dataset_rows import COLUMNS, Row

ROWS_PER_FILE = 20_000
_ROWS_AT_ONCE = 500


def write_dataset_files(rows: Iterable[Row], folder: Path) -> str:
    """Write `train-00000`, `train-00001` and so on into a folder, some rows at a time. Returns the files' ending."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - slow to import, and not everybody has it
    except ImportError:
        pa = None
    folder.mkdir()
    for number, some in enumerate(_parts(iter(rows), ROWS_PER_FILE)):
        if pa is None:
            _write_lines(some, folder / f"train-{number:05}.jsonl")
        else:
            _write_parquet(pa, some, folder / f"train-{number:05}.parquet")
    return "jsonl" if pa is None else "parquet"


def _parts(rows: Iterator[Row], size: int) -> Iterator[Iterator[Row]]:
    """The rows in parts, each of which is to be read before the next."""
    for first in rows:
        yield chain((first,), islice(rows, size - 1))


def _write_lines(rows: Iterable[Row], path: Path) -> None:
    with path.open("xb") as file:
        for row in rows:
            file.write(dump(row).encode() + b"\n")


def _write_parquet(pa: Any, rows: Iterator[Row], path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    schema = _schema(pa)
    with path.open("xb") as file, pq.ParquetWriter(file, schema) as writer:
        while some := list(islice(rows, _ROWS_AT_ONCE)):
            writer.write_table(pa.Table.from_pylist(some, schema=schema))


def _schema(pa: Any) -> Any:
    text = pa.string()
    function = pa.struct([("name", text), ("arguments", text)])
    call = pa.struct([("id", text), ("type", text), ("function", function)])
    message = pa.struct([("role", text), ("content", text), ("tool_calls", pa.list_(call)), ("tool_call_id", text)])
    ids, logprobs = pa.list_(pa.int64()), pa.list_(pa.float64())
    turn = pa.struct([("prompt_ids", ids), ("completion_ids", ids), ("completion_logprobs", logprobs)])
    types = {
        "text": text,
        "integer": pa.int64(),
        "number": pa.float64(),
        "messages": pa.list_(message),
        "metrics": pa.list_(pa.struct([("name", text), ("value", pa.float64())])),
        "turns": pa.list_(turn),
    }
    return pa.schema([(column.name, types[column.type]) for column in COLUMNS])
