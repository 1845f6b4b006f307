"""Text and JSON that providers, agents, verifiers and other programs wrote.

`parse` and `parse_object` give None for what is not JSON. `parse_strict` and `read_strict` raise Unreadable with the
place of the first fault. `mapping`, `items`, `text` and the others take a field of foreign JSON for what it should be:
a value of another type counts as absent, and none of them raises.
"""

import datetime as dt
import json
import math
from typing import Any, Literal

import orjson
from pydantic import ValidationError

from seatrial.model.base import MAX_JSON_DEPTH, check_json_object

_EXCERPT = 60
_MOST_LETTERS = 4_000


class Unreadable(ValueError):
    """The bytes are not what they should be."""

    def __init__(self, reason: str, line: int | None = None, column: int | None = None) -> None:
        place = f" (line {line}, column {column})" if line is not None else ""
        super().__init__(f"{reason}{place}")


def decode(data: bytes, errors: Literal["strict", "replace"] = "strict") -> str:
    """UTF-8 text without its byte order mark. Raises Unreadable, unless odd bytes are to be replaced."""
    if errors == "replace":
        return data.decode("utf-8", "replace").removeprefix("\ufeff")
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


def excerpt(text: str) -> str:
    """A short quotation of a text, safe to store and to print."""
    shown = text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}…"
    return ascii(shown) if any("\ud800" <= character <= "\udfff" for character in shown) else repr(shown)


def parse(data: bytes | str) -> Any:
    """The value of JSON; None if it is none."""
    try:
        return orjson.loads(data)
    except ValueError:
        return None


def parse_object(data: bytes | str) -> dict[str, Any] | None:
    """The JSON object in `data`; None for anything else."""
    value = parse(data)
    return value if isinstance(value, dict) else None


def parse_strict(text: str, first_line: int = 1) -> Any:
    """The value of strict JSON: no NaN, no infinity, no unpaired surrogate, no great depth. Raises Unreadable."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"not JSON: {error.msg}", error.lineno + first_line - 1, error.colno) from None
    try:
        check_json_object({"value": value})
    except ValueError as error:
        raise Unreadable(str(error)) from None
    return value


def read_strict(data: bytes) -> Any:
    """Like `parse_strict` on a whole file, and duplicate keys are refused. Raises Unreadable."""
    text = decode(data)
    parse_strict(text)  # strictness, bounds and places of errors; the second reader only adds the look at keys
    return json.loads(text, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Unreadable(f"the key {excerpt(key)} appears twice")
        found[key] = value
    return found


def first_fault(error: ValidationError, whole: str = "") -> str:
    """Where a value is not what its type says, and why; `whole` names the value itself."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or whole
    return f"{where}: {first['msg']}" if where else first["msg"]


def is_too_deep(value: Any) -> bool:
    """Whether it is nested deeper than what we store may be."""
    # Level by level, and only containers: a walk from value to value takes several times as long.
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_JSON_DEPTH + 1):
        if not level:
            return False
        level = [
            item
            for each in level
            for item in (each.values() if isinstance(each, dict) else each)
            if isinstance(item, (dict, list))
        ]
    return bool(level)


def dump(value: Any) -> str:
    """Compact JSON, whatever the text in it."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # text that no encoding can hold, from a file name or a terminal: written as escapes
        return json.dumps(value, separators=(",", ":"))


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """`value` if it is text that is not empty."""
    return value if isinstance(value, str) and value else None


def short_text(value: Any) -> str | None:
    """The same, cut where it is very long."""
    if (found := text(value)) is None or len(found) <= _MOST_LETTERS:
        return found
    return f"{found[:_MOST_LETTERS]}…"


def whole_number(value: Any) -> int | None:
    """`value` if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    """`value` if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def count(value: Any) -> int | None:
    """`value` if it is a count, also where it was written as 3.0."""
    found = number(value)
    if found is None or found < 0 or found != int(found) or found >= 2**63:
        return None
    return int(found)


def moment(value: Any) -> dt.datetime | None:
    """A moment, from seconds since 1970 or ISO text with its offset; None where it is not sure which one is meant."""
    if isinstance(value, str):
        try:
            when = dt.datetime.fromisoformat(value)
            return when.astimezone(dt.UTC) if when.tzinfo else None
        except (ValueError, OverflowError):
            return None
    seconds = number(value)
    if not seconds or seconds < 0:  # a clock that was never started says 0
        return None
    try:
        return dt.datetime.fromtimestamp(seconds, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None
