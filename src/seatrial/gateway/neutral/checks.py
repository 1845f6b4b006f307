"""Nothing gets lost unseen: what a reader does not understand is noted or refused by name."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import count
from seatrial.gateway.ended import is_too_deep
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Parts, Text, Untranslatable
from seatrial.model.base import MAX_JSON_DEPTH

HINTS = frozenset(
    {
        "cache_control",
        "client_metadata",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "speed",
        "store",
        "stream_options",
        "user",
    }
)
"""What concerns only the provider's books, caches and queues: it may be left out, for it changes no answer."""

_SAID_ANYWAY: Mapping[str, tuple[Any, ...]] = {
    "store": (False,),
    "service_tier": ("auto", "default"),
    "stream_options": ({"include_usage": True},),
}
"""Hints that ask for what happens without them: they are not even noted."""

_HINTS_INSIDE = frozenset({"cache_control"})
NOT_JSON = "the arguments of the call are not a JSON object"


def leave_unread(
    given: Payload,
    read: Iterable[str],
    losses: Losses,
    where: str = "",
    defaults: Mapping[str, tuple[Any, ...]] | None = None,
) -> None:
    """Leave out each field that is set, neither read nor at its default. Raises Untranslatable as `losses` does."""
    hints, usual = (_HINTS_INSIDE, defaults or {}) if where else (HINTS, {**_SAID_ANYWAY, **(defaults or {})})
    for name, value in given.items():
        if name in read or value is None or value in usual.get(name, ()):
            continue
        if name in hints:
            losses.hint(name)
        else:
            losses.leave_out(f"{where}.{name}" if where else name)


def need_table(value: Any, where: str) -> Payload:
    """`value`, an object."""
    if not isinstance(value, dict):
        raise Untranslatable(where, "it has to be an object")
    return value


def need_list(value: Any, where: str) -> list[Any]:
    """`value`, an array."""
    if not isinstance(value, list):
        raise Untranslatable(where, "it has to be an array")
    return value


def need_text(value: Any, where: str) -> str:
    """`value`, a text."""
    if not isinstance(value, str):
        raise Untranslatable(where, "it has to be text")
    return value


def tables(value: Any, where: str) -> list[tuple[Payload, str]]:
    """The objects of an array, each with its place; none when there is no array."""
    if value is None:
        return []
    return [(need_table(item, f"{where}[{i}]"), f"{where}[{i}]") for i, item in enumerate(need_list(value, where))]


def plain_text(parts: Parts) -> str | None:
    """The text of parts that are no more than one text, which every dialect writes as a plain string."""
    if not parts:
        return ""
    first = parts[0]
    return first.text if len(parts) == 1 and isinstance(first, Text) else None


def arguments_object(arguments: str, where: str) -> Payload:
    """The arguments of a call as an object; none at all is an empty one."""
    if not arguments.strip():
        return {}
    try:
        value = orjson.loads(arguments)
        exact = value == json.loads(arguments)
    except (ValueError, RecursionError):
        raise Untranslatable(where, NOT_JSON) from None
    if not isinstance(value, dict):
        raise Untranslatable(where, NOT_JSON)
    if not exact:
        raise Untranslatable(where, "it holds a number that JSON parsers round")
    if is_too_deep(value):  # then an answer that holds them could not be written
        raise Untranslatable(where, f"it is nested deeper than {MAX_JSON_DEPTH} levels")
    return value


MALFORMED = "malformed_arguments"
"""The key under which arguments of a call stand that are no JSON object, where a dialect wants one."""


def arguments_said(arguments: str, where: str, losses: Losses) -> Payload:
    """The arguments of an earlier call as an object, whatever the model wrote there; strictly, only if they are one."""
    try:
        return arguments_object(arguments, where)
    except Untranslatable:
        if losses.strict:
            raise
        return {MALFORMED: arguments}


def arguments_text(value: Payload, where: str) -> str:
    """The arguments of a call as compact JSON text."""
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise Untranslatable(where, NOT_JSON) from None


def without_none(**fields: Any) -> Payload:
    """The fields that are set."""
    return {name: value for name, value in fields.items() if value is not None}


def seconds(value: Any) -> int:
    """A time in whole seconds; some servers give fractions. 0 for what is none."""
    return count(int(value)) if isinstance(value, int | float) and abs(value) < 2**53 else 0
