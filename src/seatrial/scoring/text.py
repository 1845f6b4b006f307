"""Bytes of strangers to text and to JSON: UTF-8 only, exact, bounded, with the place of the first fault."""

import json
from typing import Any

import orjson

from seatrial.model.base import check_json_object
from seatrial.scoring.findings import excerpt


class Unreadable(Exception):
    """The bytes are not what they should be. Never leaves `scoring`: it becomes a Finding."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = f" (line {line}, column {column})" if line is not None else ""
        super().__init__(f"{reason}{place}")


def decode(data: bytes) -> str:
    """UTF-8 text without its byte order mark. Raises Unreadable."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("found UTF-16 text, expected UTF-8", 1, 1)
    try:
        # Not the codec "utf-8-sig": that one is written in Python and counts offsets from behind the mark.
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        start = data.rfind(b"\n", 0, error.start) + 1
        column = len(data[start : error.start].decode("utf-8-sig", "replace")) + 1
        line = data.count(b"\n", 0, error.start) + 1
        raise Unreadable(f"found byte 0x{data[error.start]:02x}, expected UTF-8 text", line, column) from None


def parse_json(text: str, first_line: int = 1) -> Any:
    """The value of strict JSON: no NaN, no infinity, no unpaired surrogate. Raises Unreadable."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg}", error.lineno + first_line - 1, error.colno) from None
    check_bounded(value)
    return value


def check_bounded(value: Any) -> None:
    """Raise Unreadable for a value too deep or too odd to be stored."""
    try:
        check_json_object({"value": value})
    except ValueError as error:
        raise Unreadable(str(error)) from None


def read_exact_json(data: bytes) -> Any:
    """Like `parse_json` on a whole file, and duplicate keys are refused. Raises Unreadable."""
    text = decode(data)
    parse_json(text)  # strictness, bounds and places of errors; the second reader only adds the look at keys
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Unreadable(f"the key {excerpt(key)} appears twice")
        found[key] = value
    return found
