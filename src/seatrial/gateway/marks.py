"""Cache marks: where a request tells its provider that what comes before is worth caching.

An agent moves them on with every call, and they change nothing that is said. So they are taken out before two messages
are compared, and put back when somebody wants to see what was sent.

A mark is a key of a message, of a tool definition or of a part of a system prompt, or of a block in a list of these, or
in a list of such a block. Only lists are followed, so that to look for marks takes no longer where texts are long.
"""

from typing import Any, TypedDict

import orjson

from seatrial.model.trace import CacheMark

MARK_NAMES = ("cache_control", "prompt_cache_breakpoint")
"""Anthropic's key, which others have taken over, and OpenAI's."""

_LISTS = 2
_LONGEST_KEY = 64
_LONGEST_VALUE = 200

Way = tuple[str | int, ...]


class FoundMark(TypedDict):
    """A mark with the way to it; the fields are those of CacheMark."""

    at: Way
    name: str
    value: dict[str, Any]


def take_marks(entry: Any) -> tuple[Any, list[FoundMark]]:
    """A message or another entry of a list without its marks, and the marks. The entry itself is not changed."""
    if not _is_marked(entry, _LISTS):
        return entry, []
    found: list[FoundMark] = []
    return _taken(entry, (), found), found


def without_marks(value: Any) -> Any:
    """The value of a field without the marks in its entries, if it is a list."""
    return [take_marks(entry)[0] for entry in value] if isinstance(value, list) else value


def put_mark(value: Any, mark: CacheMark) -> Any:
    """The value with a mark in its place, or as it is if it has no such place. The value itself is not changed."""
    return _put(value, mark.at, mark)


def _is_marked(entry: Any, lists: int) -> bool:
    if not isinstance(entry, dict):
        return False
    for key, value in entry.items():
        if key in MARK_NAMES:
            if _is_mark(value):
                return True
        elif lists and isinstance(value, list):
            for each in value:
                if _is_marked(each, lists - 1):
                    return True
    return False


def _taken(entry: Any, at: Way, found: list[FoundMark]) -> Any:
    if not isinstance(entry, dict):
        return entry
    kept: dict[str, Any] = {}
    for key, value in entry.items():
        if key in MARK_NAMES and _is_mark(value):
            found.append({"at": at, "name": key, "value": value})
        # A key of any length would be written again with every mark below it.
        elif isinstance(value, list) and len(at) < 2 * _LISTS and len(key) <= _LONGEST_KEY:
            kept[key] = [_taken(each, (*at, key, place), found) for place, each in enumerate(value)]
        else:
            kept[key] = value
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
