"""A thread as training data: dialogues as a model saw them, written as messages of chat completions.

A dialogue has the system prompt, all messages and the last answer. After a compaction the model saw something else than
before, so each stretch between compactions is one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from seatrial.gateway.calls import RecordedCalls
from seatrial.messages import (
    AnyItem,
    Message,
    Parts,
    Picture,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    Unknown,
    as_text,
    is_model_side,
    is_system,
    plain_words,
)
from seatrial.trajectories.reading import read_messages, read_system, read_tools
from seatrial.trajectories.threads import Thread, ThreadCall
from seatrial.untrusted.json import dump

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """What was said, from the system prompt to the last answer, and which functions the model could call."""

    thread: str
    number: int
    model: str | None
    tools: tuple[dict[str, Any], ...]
    items: tuple[AnyItem, ...]


def dialogues(recorded: RecordedCalls, thread: Thread) -> Iterator[Dialogue]:
    """The dialogues of a thread that have an answer. Raises ValueError if a call builds on one that is not there."""
    for number, last in enumerate(_last_answered(thread), 1):
        system = [Message("system", (block,)) for block in read_system(last.request)]
        said = read_messages(recorded.plain_messages(last.call.index))
        tools = tuple(tool for tool in read_tools(last.request) if "function" in tool)
        model = last.call.upstream_model or last.call.model
        yield Dialogue(thread.name, number, model, tools, (*system, *said, *last.answer))


def _last_answered(thread: Thread) -> list[ThreadCall]:
    """The last answer of each stretch of a thread that was taken; a part of an answer teaches nothing."""
    last: list[ThreadCall | None] = [None]
    for each in thread.calls:
        if each.how == "compacted" and last[-1] is not None:
            last.append(None)
        if each.taken and each.answer and each.call.error is None:
            last[-1] = each
    return [each for each in last if each is not None]


def chat_line(dialogue: Dialogue) -> Line:
    """A line of training data: messages and tools. What the model thought is left out, for it cannot be taught so."""
    tools = {"tools": list(dialogue.tools)} if dialogue.tools else {}
    return {"messages": list(chat_messages(dialogue.items)), **tools}


def chat_messages(items: Sequence[AnyItem]) -> Iterator[Line]:
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

    def called(self, call: ToolCall) -> str:
        self._count += 1
        found = call.id or f"call_{self._count}"
        self._open.append((call.name, found))
        return found

    def returned(self, result: ToolResult) -> str:
        if result.id:
            return result.id
        found = next((each for each in self._open if each[0] == result.name), None)
        if found is None:
            return result.name
        self._open.remove(found)
        return found[1]


def _heard(item: AnyItem, ids: _Ids) -> Line:
    if isinstance(item, ToolResult):
        return {"role": "tool", "tool_call_id": ids.returned(item), "content": _text(item.parts)}
    if is_system(item):
        return {"role": "system", "content": _text(item.parts)}
    return {"role": "user", "content": _content(item.parts) if isinstance(item, Message) else _said(item)}


def _spoken(items: Sequence[AnyItem], ids: _Ids) -> Line | None:
    words = [text for item in items if (text := _said(item))]
    calls = [
        {"id": ids.called(item), "type": "function", "function": {"name": item.name, "arguments": _arguments(item)}}
        for item in items
        if isinstance(item, ToolCall)
    ]
    if not words and not calls and all(isinstance(item, Reasoning) for item in items):
        return None
    message: Line = {"role": "assistant", "content": "\n".join(words) or (None if calls else "")}
    return {**message, "tool_calls": calls} if calls else message


def _said(item: AnyItem) -> str:
    if isinstance(item, Message):
        return _text(item.parts)
    if isinstance(item, Refusal):
        return item.text
    return as_text(item.value) if isinstance(item, Unknown) else ""


def _arguments(call: ToolCall) -> str:
    return call.arguments if isinstance(call.arguments, str) else dump(call.arguments)


def _text(parts: Parts) -> str:
    """Parts where only text can stand."""
    return plain_words(tuple("[image]" if isinstance(part, Picture) else part for part in parts))


def _content(parts: Parts) -> str | list[Line]:
    if not any(isinstance(part, Picture) for part in parts):
        return plain_words(parts)
    return [
        {"type": "image_url", "image_url": {"url": part.url}}
        if isinstance(part, Picture)
        else {"type": "text", "text": part}
        for part in parts
    ]
