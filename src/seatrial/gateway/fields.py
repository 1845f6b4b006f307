"""What the dialects have in common in requests, counts of tokens and errors, in their own form.

Strangers wrote it, and nothing here raises.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from seatrial.gateway.base import TokenCounts
from seatrial.model.trace import TokenUsage
from seatrial.untrusted.json import mapping, text

_MAX_COUNT = 2**40  # no call has so many tokens, and the sum over a trial must fit into its record
_SHOWN = 80

Payload = dict[str, Any]


class ToldError(NamedTuple):
    """An error as a provider tells it, in a body or in the middle of a stream."""

    type: str
    message: str


def is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_COUNT


def counted(read: Any, cached: Any, written: Any, thought: Any) -> TokenCounts | None:
    """What an answer consumed; None when one of these is no count, or one of the two sums is missing.

    What is said of a sum's parts may be missing.
    """
    cached, thought = cached or 0, thought or 0
    for each in (read, cached, written, thought):  # with every answer, so without a call for each
        if type(each) is not int or not 0 <= each <= _MAX_COUNT:
            return None
    return {"input_tokens": read, "cached_tokens": cached, "output_tokens": written, "reasoning_tokens": thought}


def with_cache_writes(counts: TokenCounts | None, stored: Any, stored_1h: Any = 0) -> TokenCounts | None:
    """The same with what the provider stored in its cache, and how much of that for an hour, if it stored anything."""
    if counts is None or not is_count(stored) or not stored:
        return counts
    counts["cache_write_tokens"] = stored
    if is_count(stored_1h) and stored_1h:
        counts["cache_write_1h_tokens"] = min(stored_1h, stored)
    return counts


def as_usage(counts: TokenCounts | None) -> TokenUsage | None:
    """The same as a checked value."""
    return None if counts is None else TokenUsage(**counts)


def garbled(data: str) -> str | None:
    """The start of what is no JSON object, though it came as one; None for the few words that some streams have."""
    return None if not data.strip() or data.startswith("[DONE]") else data[:_SHOWN]


def overridden(payload: Payload, model: str | None, values: Mapping[str, Any]) -> Payload:
    """`payload` with `model` and `values` where they are set."""
    changes = {name: value for name, value in values.items() if value is not None}
    if model is not None:
        changes["model"] = model
    return {**payload, **changes} if changes else payload


def told_error(body: Any) -> ToldError | None:
    """The error that a body or an event tells, in any of the shapes in use; None when it tells none."""
    error = mapping(body).get("error")
    if isinstance(error, str) and error:
        return ToldError("error", error)
    found = mapping(error)
    if not found and mapping(body).get("type") == "error":
        found = mapping(body)
    if not found:
        return None
    kind = text(found.get("type")) or text(found.get("code")) or text(found.get("status")) or "error"
    if kind == "error":
        kind = text(found.get("code")) or kind
    return ToldError(kind, text(found.get("message")) or "the provider told of an error without a message")
