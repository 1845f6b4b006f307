"""When two requests ask a model for the same: what counts in them, its hash, and where they first differ."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.gateway.marks import without_marks
from seatrial.model.trace import Dialect

_VOLATILE = frozenset(
    {
        "cache_control",
        "client_metadata",
        "metadata",
        "prompt_cache_key",
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
        "stream",
        "stream_options",
        "user",
    }
)
"""Fields that do not change what a model says: how the answer travels, and whom it is billed to."""


_NUMBER = re.compile(rb"[0-9a-f]*[0-9][0-9a-f]*")
_OUTPUTS = ("tool_result", "function_call_output", "custom_tool_call_output")


def essential(payload: Mapping[str, Any] | None) -> dict[str, Any]:
    """A request without what does not change its answer: some of its fields, and cache marks wherever they are."""
    kept = {key: without_marks(value) for key, value in (payload or {}).items() if key not in _VOLATILE}
    return {**kept, "input": essential_messages(kept["input"])} if isinstance(kept.get("input"), list) else kept


def essential_messages(messages: list[Any]) -> list[Any]:
    """A conversation without the names that an agent makes up for its messages anew in each run, as Codex does."""
    return [_unnamed(each) if isinstance(each, dict) and "id" in each and "type" in each else each for each in messages]


def _unnamed(item: dict[str, Any]) -> dict[str, Any]:
    if item["type"] == "item_reference":
        return item
    return {key: value for key, value in item.items() if key != "id"}


def without_numbers(messages: list[Any]) -> list[Any]:
    """A conversation in which the numbers are blank that tools gave back: times, and names made up for one use."""
    return [_blank(each) if isinstance(each, dict) else each for each in messages]


def _blank(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("role") == "tool" or message.get("type") in _OUTPUTS:
        said = {name: message[name] for name in ("content", "output") if name in message}
        return {**message, **{name: _NUMBER.sub(b"#", _canonical(value)).decode() for name, value in said.items()}}
    if "functionResponse" in message:
        return {**message, "functionResponse": _NUMBER.sub(b"#", _canonical(message["functionResponse"])).decode()}
    if isinstance(parts := message.get("parts"), list):
        return {**message, "parts": without_numbers(parts)}
    content = message.get("content")
    return {**message, "content": without_numbers(content)} if isinstance(content, list) else message


def essential_path(dialect: Dialect | None, path: str) -> str:
    """A path without what does not change the answer. Google's says nothing that is not in the payload as well."""
    return "" if dialect == "google" else path


def fingerprint(*parts: Any) -> str:
    """A hash of JSON values, in which the order of keys does not count."""
    return hashlib.sha256(_canonical(parts)).hexdigest()


def first_difference(expected: Any, found: Any, where: str = "") -> str | None:
    """The place where two JSON values first differ, and how; None if they are equal."""
    if _canonical(expected) == _canonical(found):
        return None
    if isinstance(expected, dict) and isinstance(found, dict):
        return _in_tables(expected, found, where)
    if isinstance(expected, list) and isinstance(found, list):
        return _in_lists(expected, found, where)
    return f"{where or 'the request'} was {_shown(expected)}, is now {_shown(found)}"


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _in_tables(expected: dict[str, Any], found: dict[str, Any], where: str) -> str | None:
    for key in sorted(expected.keys() | found.keys()):
        place = f"{where}.{key}" if where else key
        if key not in found:
            return f"{place} was {_shown(expected[key])}, is now missing"
        if key not in expected:
            return f"{place} was not there, is now {_shown(found[key])}"
        if difference := first_difference(expected[key], found[key], place):
            return difference
    return None


def _in_lists(expected: list[Any], found: list[Any], where: str) -> str | None:
    for index, (before, now) in enumerate(zip(expected, found, strict=False)):
        if difference := first_difference(before, now, f"{where}[{index}]"):
            return difference
    if len(expected) != len(found):
        return f"{where} had {len(expected)} entries, has now {len(found)}"
    return None


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}… ({len(text)} characters)"
