"""Formats that carry data: JSON, JSON Lines, CSV, TSV, YAML, TOML."""

import csv
import io
import re
import tomllib
from collections.abc import Iterator

from seatrial.model.base import plain
from seatrial.model.output import OutputSpec
from seatrial.scoring.findings import excerpt
from seatrial.scoring.formats.parsed import Parsed, keys_of
from seatrial.scoring.text import Unreadable, decode, parse_json

# Their readers are some hundred times slower per byte than the others, and an agent chooses the bytes.
MAX_SLOW_BYTES = 2**20
_MAX_ODDITIES = 5


def parse_json_file(content: bytes, _: OutputSpec) -> Parsed:
    """One JSON value."""
    value = parse_json(decode(content))
    return Parsed(value, keys_of(value))


def parse_jsonl(content: bytes, _: OutputSpec) -> Parsed:
    """One JSON value per line; blank lines are allowed, an empty file is not."""
    lines = decode(content).split("\n")
    values = [parse_json(line, number) for number, line in enumerate(lines, start=1) if line.strip()]
    if not values:
        raise Unreadable("the file has no line with a value", 1, 1)
    return Parsed(values, keys_of(values))


def parse_csv(content: bytes, spec: OutputSpec) -> Parsed:
    """Comma-separated rows under a header."""
    return _parse_rows(content, ",", spec)


def parse_tsv(content: bytes, spec: OutputSpec) -> Parsed:
    """Tab-separated rows under a header."""
    return _parse_rows(content, "\t", spec)


def _parse_rows(content: bytes, delimiter: str, spec: OutputSpec) -> Parsed:
    rows = _Rows(decode(content), delimiter)
    header = next(iter(rows), None)
    if header is None:
        raise Unreadable("the file is empty, expected a header row", 1, 1)
    oddities, objects = [], []
    for row in rows:
        if len(row) != len(header):
            oddities.append(f"line {rows.line} has {len(row)} fields, the header has {len(header)}")
        if spec.shape.json_schema is not None:
            objects.append(dict(zip(header, row, strict=False)))
    return Parsed(objects, frozenset(header), tuple(oddities[:_MAX_ODDITIES]))


class _Rows:
    """The rows that are not blank, with the line the last one ended on."""

    def __init__(self, text: str, delimiter: str) -> None:
        self._reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    @property
    def line(self) -> int:
        return self._reader.line_num

    def __iter__(self) -> Iterator[list[str]]:
        try:
            for row in self._reader:
                if row:
                    yield row
        except csv.Error as error:
            raise Unreadable(str(error), self.line, 1) from None


def parse_toml(content: bytes, _: OutputSpec) -> Parsed:
    """One TOML document; dates are handed on as text."""
    try:
        value = plain(tomllib.loads(decode(_bounded(content)).replace("\r\n", "\n")))
    except tomllib.TOMLDecodeError as error:
        match = re.search(r"^(.*) \(at line (\d+), column (\d+)\)$", str(error), re.DOTALL)
        if match:
            raise Unreadable(f"not TOML: {excerpt(match[1])}", int(match[2]), int(match[3])) from None
        raise Unreadable(f"not TOML: {excerpt(str(error))}") from None
    return Parsed(value, keys_of(value))


def parse_yaml(content: bytes, _: OutputSpec) -> Parsed:
    """One YAML document, or several as a list; only plain values, with aliases that cannot blow up."""
    from seatrial.bounded_yaml import YamlError, read_documents  # noqa: PLC0415 - slow to import, and seldom needed

    try:
        documents = read_documents(decode(_bounded(content)))
    except YamlError as error:
        detail = f": {excerpt(error.detail)}" if error.detail else ""
        raise Unreadable(f"{error.message}{detail}", error.line, error.column) from None
    value = documents[0] if len(documents) == 1 else documents
    return Parsed(value, keys_of(value))


def _bounded(content: bytes) -> bytes:
    if len(content) > MAX_SLOW_BYTES:
        raise Unreadable(f"found {len(content):,} bytes, at most {MAX_SLOW_BYTES:,} are read of this format")
    return content
