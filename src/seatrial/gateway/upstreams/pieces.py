"""How text and events are cut for a stream."""

from collections.abc import Iterator
from typing import Any

import orjson

_PIECE = 16
_MOST_PIECES = 64


def pieces(text: str) -> Iterator[str]:
    """The text in several parts, at most 64 of them; nothing for no text."""
    size = max(_PIECE, -(-len(text) // _MOST_PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))


def data_event(value: Any) -> bytes:
    """A server-sent event without a name."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def named_event(value: dict[str, Any]) -> bytes:
    """A server-sent event that carries its type as name."""
    name: str = value["type"]
    return b"event: " + name.encode() + b"\n" + data_event(value)
