"""A dialogue as messages of chat completions, in which models are fine-tuned."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from seatrial.gateway.dialects.fields import dump
from seatrial.trajectories.dialogue import Dialogue
from seatrial.trajectories.items import (
    Declined,
    Item,
    Picture,
    Pieces,
    Thought,
    ToolOutput,
    ToolUse,
    Unread,
    Words,
    as_text,
    is_model_side,
    plain_words,
)

_SYSTEM_ROLES = ("system", "developer")
Message = dict[str, Any]


def chat_line(dialogue: Dialogue) -> Message:
    """A line of training data: messages and tools. What the model thought is left out, for it cannot be taught so."""
    tools = {"tools": list(dialogue.tools)} if dialogue.tools else {}
    return {"messages": list(chat_messages(dialogue.items)), **tools}


def chat_messages(items: Sequence[Item]) -> Iterator[Message]:
    """Items as messages, those of the model between two others as one."""
    ids = _Ids()
    for models, group in groupby(items, is_model_side):
        if not models:
            yield from (_heard(item, ids) for item in group)
        elif message := _spoken(list(group), ids):
            yield message


class _Ids:
    """The ids of calls, which some dialects do without: a result then belongs to the first open call of its tool."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []

    def called(self, use: ToolUse) -> str:
        self._count += 1
        found = use.id or f"call_{self._count}"
        self._open.append((use.name, found))
        return found

    def returned(self, output: ToolOutput) -> str:
        if output.id:
            return output.id
        found = next((each for each in self._open if each[0] == output.name), None)
        if found is None:
            return output.name
        self._open.remove(found)
        return found[1]


def _heard(item: Item, ids: _Ids) -> Message:
    if isinstance(item, ToolOutput):
        return {"role": "tool", "tool_call_id": ids.returned(item), "content": _text(item.pieces)}
    if isinstance(item, Words):
        role = "system" if item.role in _SYSTEM_ROLES else "user"
        return {"role": role, "content": _content(item.pieces) if role == "user" else _text(item.pieces)}
    return {"role": "user", "content": as_text(item.value) if isinstance(item, Unread) else ""}


def _spoken(items: Sequence[Item], ids: _Ids) -> Message | None:
    words = [text for item in items if (text := said_text(item))]
    calls = [
        {"id": ids.called(item), "type": "function", "function": {"name": item.name, "arguments": _arguments(item)}}
        for item in items
        if isinstance(item, ToolUse)
    ]
    if not words and not calls and all(isinstance(item, Thought) for item in items):
        return None
    return {"role": "assistant", "content": "\n".join(words) or (None if calls else ""), **_with_calls(calls)}


def said_text(item: Item) -> str:
    """What the model said aloud in an item."""
    if isinstance(item, Words):
        return _text(item.pieces)
    if isinstance(item, Declined):
        return item.text
    return as_text(item.value) if isinstance(item, Unread) else ""


def _with_calls(calls: list[Message]) -> Message:
    return {"tool_calls": calls} if calls else {}


def _arguments(use: ToolUse) -> str:
    return use.arguments if isinstance(use.arguments, str) else dump(use.arguments)


def _text(pieces: Pieces) -> str:
    """Pieces where only text can stand."""
    return plain_words(tuple("[image]" if isinstance(piece, Picture) else piece for piece in pieces))


def _content(pieces: Pieces) -> str | list[Message]:
    if not any(isinstance(piece, Picture) for piece in pieces):
        return plain_words(pieces)
    return [
        {"type": "image_url", "image_url": {"url": piece.url}}
        if isinstance(piece, Picture)
        else {"type": "text", "text": piece}
        for piece in pieces
    ]
