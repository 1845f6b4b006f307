"""Answers as values and back: JSON, JSON Lines, JSON in Markdown, CSV, TSV, YAML, TOML.

A codec reads bytes into plain values and writes changed values in the way the bytes were written, as far as it can
tell. What it cannot read is None: then there is nothing to change about an answer without knowing its task.
"""

import csv
import io
import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from seatrial.check.answers.toml_text import write_toml
from seatrial.model.output import OutputFormat, format_of
from seatrial.verifier_kit import json_blocks

DataFormat = Literal["json", "jsonl", "md", "csv", "tsv", "yaml", "toml"]
MAX_DATA_BYTES = 2**20
_MAX_DEPTH = 60
_INDENT = re.compile(r"\n([ \t]+)\S")
_Writer = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class DataAnswer:
    """An answer that is data: its value, and the way to write another value in its place."""

    format: DataFormat
    value: Any
    write: _Writer

    def written(self, value: Any) -> bytes | None:
        """Another value as bytes; None where the format cannot say it, or would say something else."""
        try:
            content = self.write(value)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, csv.Error):
            return None
        again = read_data(content, self.format)
        return content if again is not None and same(again.value, value) else None


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike to the type; unlike `==`, NaN is like NaN, and true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and (one == other or (one != one and other != other))  # noqa: PLR0124 - NaN


def read_data(content: bytes, answer_format: OutputFormat | None, path: str = "") -> DataAnswer | None:
    """The value of an answer, None for what is no data, too large or malformed."""
    reader = _READERS.get(answer_format or format_of(path) or "")
    if reader is None or len(content) > MAX_DATA_BYTES:
        return None
    try:
        answer = reader(content.decode("utf-8-sig"))
    except (ValueError, RecursionError, csv.Error):
        return None
    return answer if answer is not None and _depth(answer.value) <= _MAX_DEPTH else None


def _read_json(text: str) -> DataAnswer:
    return DataAnswer("json", json.loads(text), _json_writer(text))


def _json_writer(text: str) -> _Writer:
    options, end = _json_style(text), _tail(text)
    return lambda value: (json.dumps(value, **options) + end).encode()


def _json_style(text: str) -> dict[str, Any]:
    indent = _INDENT.search(text.strip())
    compact = ("," if indent else ", ", ": ") if ": " in text or indent else (",", ":")
    return {"indent": indent[1] if indent else None, "separators": compact, "ensure_ascii": text.isascii()}


def _tail(text: str) -> str:
    return text[len(text.rstrip()) :]


def _read_jsonl(text: str) -> DataAnswer:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        raise ValueError("no line")
    options, end = _json_style(lines[0]) | {"indent": None}, _tail(text)

    def write(values: Any) -> bytes:
        return ("\n".join(json.dumps(value, **options) for value in values) + end).encode()

    return DataAnswer("jsonl", [json.loads(line) for line in lines], write)


def _read_markdown(text: str) -> DataAnswer | None:
    """The last JSON block of a report, which is what counts; the rest of the report stays as it is."""
    blocks = json_blocks(text)
    if not blocks:
        return None
    body = blocks[-1].body if "\r\n" not in text else blocks[-1].body.replace("\n", "\r\n")
    before, found, after = text.rpartition(body)
    if not found or not body.strip():
        return None
    options = _json_style(body)
    return DataAnswer("md", json.loads(body), lambda value: (before + json.dumps(value, **options) + after).encode())


def _read_csv(text: str) -> DataAnswer | None:
    return _read_rows(text, "csv", ",")


def _read_tsv(text: str) -> DataAnswer | None:
    return _read_rows(text, "tsv", "\t")


def _read_rows(text: str, answer_format: Literal["csv", "tsv"], usual: str) -> DataAnswer | None:
    """Rows under a header. Cells are text, as they are for whoever reads them."""
    first = text.split("\n", 1)[0]
    delimiter = next((mark for mark in (usual, ";", "\t") if mark in first), usual)
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True) if row]
    header = rows[0] if rows else []
    if len(rows) < 2 or len(set(header)) != len(header) or any(len(row) != len(header) for row in rows):
        return None
    ending = "\r\n" if "\r\n" in text else "\n"

    def write(records: Any) -> bytes:
        buffer = io.StringIO(newline="")
        writer = csv.writer(buffer, delimiter=delimiter, lineterminator=ending)
        columns = list(records[0]) if records else header
        writer.writerows([columns, *([record[column] for column in columns] for record in records)])
        return (buffer.getvalue().removesuffix(ending) + _tail(text)).encode()

    return DataAnswer(answer_format, [dict(zip(header, row, strict=True)) for row in rows[1:]], write)


def _read_yaml(text: str) -> DataAnswer | None:
    import yaml  # noqa: PLC0415 - slow to import, and seldom needed

    from seatrial.bounded_yaml import read_documents  # noqa: PLC0415 - as above

    documents = read_documents(text)
    if len(documents) != 1 or not isinstance(documents[0], dict | list) or not _has_text_keys(documents[0]):
        return None

    def write(value: Any) -> bytes:
        return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=10_000)).encode()

    return DataAnswer("yaml", documents[0], write)


def _has_text_keys(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) for key in value) and all(map(_has_text_keys, value.values()))
    return all(map(_has_text_keys, value)) if isinstance(value, list) else True


def _read_toml(text: str) -> DataAnswer:
    return DataAnswer("toml", tomllib.loads(text.replace("\r\n", "\n")), lambda value: write_toml(value).encode())


def _depth(value: Any, level: int = 0) -> int:
    if level > _MAX_DEPTH or not isinstance(value, dict | list):
        return level
    inner = value.values() if isinstance(value, dict) else value
    return max((_depth(each, level + 1) for each in inner), default=level + 1)


_READERS: dict[str, Callable[[str], DataAnswer | None]] = {
    "json": _read_json,
    "jsonl": _read_jsonl,
    "md": _read_markdown,
    "csv": _read_csv,
    "tsv": _read_tsv,
    "yaml": _read_yaml,
    "toml": _read_toml,
}
