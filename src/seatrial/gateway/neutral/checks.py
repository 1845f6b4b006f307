"""Nothing gets lost unseen: what a reader does not understand is refused by name."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import count
from seatrial.gateway.neutral.types import Parts, Text, Untranslatable

HINTS = frozenset(
    {
        "cache_control",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "stream_options",
        "user",
    }
)
"""What concerns only the provider's books, caches and queues: it may be left out, for it changes no answer."""

NOT_JSON = "the arguments of the call are not a JSON object"


def refuse_unread(
    given: Payload, read: Iterable[str], where: str = "", defaults: Mapping[str, tuple[Any, ...]] | None = None
) -> None:
    """Raise Untranslatable for the first field that is set and neither read, nor a hint, nor at its default."""
    known = {*read, *(("cache_control",) if where else HINTS)}
    for name, value in given.items():
        if name not in known and value is not None and value not in (defaults or {}).get(name, ()):
            raise Untranslatable(f"{where}.{name}" if where else name)


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
    return value


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
