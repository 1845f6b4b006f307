"""Reading what strangers wrote: a value of the wrong type counts as absent, and nothing here raises."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.gateway.dialects.api import Payload, ToldError
from seatrial.gateway.ended import TokenCounts

_MAX_COUNT = 2**40  # no call has so many tokens, and the sum over a trial must fit into its record
_SHOWN = 80


def table(value: Any) -> Payload:
    """`value` if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """`value` if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """`value` if it is text that says something."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int:
    """`value` if it is a count, else 0."""
    return value if is_count(value) else 0


def is_count(value: Any) -> bool:
    """Whether it is a number of things."""
    return type(value) is int and 0 <= value <= _MAX_COUNT


def counted(read: Any, cached: Any, written: Any, thought: Any) -> TokenCounts | None:
    """What an answer consumed; None when one of these is no count, or one of the two sums is missing.

    What is said of a sum's parts may be missing.
    """
    cached, thought = cached or 0, thought or 0
    if not all(map(is_count, (read, cached, written, thought))):
        return None
    return {"input_tokens": read, "cached_tokens": cached, "output_tokens": written, "reasoning_tokens": thought}


def with_cache_writes(counts: TokenCounts | None, stored: Any, stored_1h: Any = 0) -> TokenCounts | None:
    """The same with what the provider stored in its cache, and how much of that for an hour, if it stored anything."""
    if counts is None or not count(stored):
        return counts
    counts["cache_write_tokens"] = stored
    if count(stored_1h):
        counts["cache_write_1h_tokens"] = min(stored_1h, stored)
    return counts


def number(value: Any) -> int | None:
    """`value` if it is a whole number."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_object(data: str) -> Payload | None:
    """The JSON object in `data`, or None."""
    try:
        value = orjson.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def garbled(data: str) -> str | None:
    """The start of what is no JSON object, though it came as one; None for the few words that some streams have."""
    return None if not data.strip() or data.startswith("[DONE]") else data[:_SHOWN]


def dump(value: Any) -> str:
    """Compact JSON, whatever the text in it."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # text that no encoding can hold, from a file name or a terminal: written as escapes
        return json.dumps(value, separators=(",", ":"))


def overridden(payload: Payload, model: str | None, values: Mapping[str, Any]) -> Payload:
    """`payload` with `model` and `values` where they are set."""
    changes = {name: value for name, value in values.items() if value is not None}
    if model is not None:
        changes["model"] = model
    return {**payload, **changes} if changes else payload


def told_error(body: Any) -> ToldError | None:
    """The error that a body or an event tells, in any of the shapes in use; None when it tells none."""
    error = table(body).get("error")
    if isinstance(error, str) and error:
        return ToldError("error", error)
    found = table(error)
    if not found and table(body).get("type") == "error":
        found = table(body)
    if not found:
        return None
    kind = text(found.get("type")) or text(found.get("code")) or text(found.get("status")) or "error"
    if kind == "error":
        kind = text(found.get("code")) or kind
    return ToldError(kind, text(found.get("message")) or "the provider told of an error without a message")
