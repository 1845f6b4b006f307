"""EndedCall: a call that has ended, on its way into calls.jsonl, and the line that becomes of it.

What is written is checked when it is read, by ModelCall: here it is JSON that a parser has just read, and nothing that
a parser reads is refused by the next one, unless it is nested too deeply.
"""

import datetime as dt
from typing import Any, NotRequired, TypedDict

import orjson

from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import CallErrorKind, Dialect, EndedBy, ModelCall

_CONTENT = ("messages", "request", "response")
_NOT_KEPT = {"not_kept": f"nested deeper than {MAX_JSON_DEPTH} levels"}
_FORMAT = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


class TokenCounts(TypedDict):
    """What one call consumed; the fields are those of TokenUsage."""

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: NotRequired[int]
    cache_write_1h_tokens: NotRequired[int]
    output_tokens: int
    reasoning_tokens: int


class ToldReason(TypedDict):
    """Why a call gave no answer; the fields are those of CallError."""

    kind: CallErrorKind
    status: NotRequired[int]
    message: str
    ended_by: NotRequired[EndedBy]
    silent_sec: NotRequired[float]


class EndedCall(TypedDict):
    """A call with all its messages; the fields are those of ModelCall, and what is None there is absent here.

    Plain values, for there is one with every call: to make a checked one takes longer than to write it down.
    """

    index: int
    dialect: NotRequired[Dialect]
    method: NotRequired[str]
    path: str
    started_at: dt.datetime
    duration_sec: float
    first_token_sec: NotRequired[float]
    stream: bool
    model: NotRequired[str]
    upstream_model: NotRequired[str]
    messages: list[Any]
    request: NotRequired[dict[str, Any]]
    response: NotRequired[dict[str, Any]]
    status: NotRequired[int]
    finish_reason: NotRequired[str]
    usage: NotRequired[TokenCounts]
    cost_usd: NotRequired[float]
    retry_of: NotRequired[int]
    omitted: NotRequired[tuple[str, ...]]
    error: NotRequired[ToldReason]


def checked(call: EndedCall) -> ModelCall:
    """The same as a ModelCall, without what is nested too deeply."""
    values: dict[str, Any] = dict(call)
    deep = [name for name in ("request", "response") if is_too_deep(values.get(name))]
    return ModelCall(**{**values, **dict.fromkeys(deep, _NOT_KEPT)})


def line_values(call: EndedCall | ModelCall) -> dict[str, Any]:
    """What there is to write of a call."""
    if not isinstance(call, ModelCall):
        return {**call}
    values = {name: value for name, value in dict(call).items() if value is not None and value != ()}
    for name in values.keys() & {"usage", "error"}:
        values[name] = values[name].model_dump(exclude_none=True, exclude_unset=name == "usage")
    for name in ("known_parts", "marks"):  # found again when it is written
        del values[name]
    return values


def as_line(values: dict[str, Any]) -> bytes:
    """The line of these values. What is nested too deeply to be read again is taken out of them."""
    try:
        line = orjson.dumps(values, option=_FORMAT)
        # What has no more brackets than that has no more levels either: true of most calls, and quickly seen.
        if line.count(b"{") + line.count(b"[") <= MAX_JSON_DEPTH:
            return line
    except TypeError:  # nested too deeply even to be written
        line = b""
    deep = [name for name in _CONTENT if is_too_deep(values.get(name))]
    if line and not deep:
        return line
    values.update(dict.fromkeys(deep, _NOT_KEPT))
    if "messages" in deep:
        del values["messages"]
        values.pop("known", None)
    if "request" in deep:
        values.pop("known_parts", None)
    if deep != ["response"]:
        values.pop("marks", None)
    return orjson.dumps(values, option=_FORMAT)


def is_too_deep(value: Any) -> bool:
    """Whether it is nested deeper than what is kept of a call may be."""
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
