"""Cache marks: where a request tells its provider that what comes before is worth caching.

An agent moves them on with every call, and they change nothing that is said. So they are taken out before two messages
are compared, and put back when somebody wants to see what was sent.
"""

from typing import Any, TypedDict

import orjson

from seatrial.model.trace import CacheMark

MARK_NAMES = ("cache_control", "prompt_cache_breakpoint")
"""Anthropic's key, which others have taken over, and OpenAI's."""

_WRITTEN = tuple(f'"{name}":'.encode() for name in MARK_NAMES)
_DEEPEST = 8
_LONGEST_KEY = 64
_LONGEST_VALUE = 200

Way = tuple[str | int, ...]


class FoundMark(TypedDict):
    """A mark with the way to it; the fields are those of CacheMark."""

    at: Way
    name: str
    value: dict[str, Any]


def may_have_marks(written: bytes) -> bool:
    """Whether there could be a mark in a value that is written like this, compactly; a quick look, no promise."""
    return any(each in written for each in _WRITTEN)


def take_marks(value: Any) -> tuple[Any, list[FoundMark]]:
    """The value without its marks, and the marks. The value itself is not changed."""
    found: list[FoundMark] = []
    return _taken(value, (), found), found


def put_mark(value: Any, mark: CacheMark) -> Any:
    """The value with a mark in its place, or as it is if it has no such place. The value itself is not changed."""
    return _put(value, mark.at, mark)


def without_marks(value: Any) -> Any:
    """The value without its marks."""
    return take_marks(value)[0]


def _taken(value: Any, at: Way, found: list[FoundMark]) -> Any:
    if len(at) > _DEEPEST or not isinstance(value, dict | list):
        return value
    before = len(found)
    new = _taken_from_table(value, at, found) if isinstance(value, dict) else _taken_from_list(value, at, found)
    return new if len(found) > before else value


def _taken_from_list(values: list[Any], at: Way, found: list[FoundMark]) -> list[Any]:
    return [_taken(each, (*at, place), found) for place, each in enumerate(values)]


def _taken_from_table(table: dict[str, Any], at: Way, found: list[FoundMark]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, each in table.items():
        if key in MARK_NAMES and _is_mark(each):
            found.append({"at": at, "name": key, "value": each})
        else:
            # A key of any length would be written again with every mark below it.
            kept[key] = _taken(each, (*at, key), found) if len(key) <= _LONGEST_KEY else each
    return kept


def _is_mark(value: Any) -> bool:
    """Whether it is a small flat table: anything else is content, whatever its key says."""
    if not isinstance(value, dict) or any(isinstance(each, dict | list) for each in value.values()):
        return False
    return len(orjson.dumps(value)) <= _LONGEST_VALUE


def _put(value: Any, at: list[str | int], mark: CacheMark) -> Any:
    if not at:
        return {**value, mark.name: mark.value} if isinstance(value, dict) else value
    place = at[0]
    if isinstance(value, dict) and isinstance(place, str) and place in value:
        return {**value, place: _put(value[place], at[1:], mark)}
    if isinstance(value, list) and isinstance(place, int) and 0 <= place < len(value):
        return [*value[:place], _put(value[place], at[1:], mark), *value[place + 1 :]]
    return value
