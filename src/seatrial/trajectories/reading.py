"""Reads messages and answers of every dialect into items. They are strangers' text in strangers' form.

Pieces are told apart by their form and not by the dialect of their call, for agents mix them. Nothing here raises, and
what is not understood is kept as it is, so that nothing is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

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
)

_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text")
_REASONING = ("reasoning_content", "reasoning")
_TOOL_ROLES = ("tool", "function")


def read_messages(messages: Iterable[Any]) -> list[Item]:
    """What messages of a request say."""
    return [item for message in messages for item in read_message(message)]


def read_message(message: Any) -> list[Item]:
    """What one message of a request says. A message of the responses API may be a call, a result or a thought."""
    if isinstance(message, str):
        return [Words("user", (message,))]
    if not isinstance(message, dict):
        return [Unread("user", "message", message)]
    if not isinstance(message.get("role"), str) and not isinstance(message.get("parts"), list):
        return _joined(_part("assistant" if _is_called(message) else "user", message))
    role = _text(message.get("role")) or "user"  # which Google's agents need not say
    if role in _TOOL_ROLES:
        name = _text(message.get("name"))
        return [ToolOutput(_text(message.get("tool_call_id")), name, read_pieces(message.get("content")))]
    return _joined(_said(role, message), _text(message.get("name")) or None)


def read_answer(response: Any) -> list[Item]:
    """What an answer says."""
    if not isinstance(response, dict):
        return []
    for name, inner in (("choices", "message"), ("candidates", "content")):
        if isinstance(found := response.get(name), list):
            return [item for choice in found for item in _choice(choice, inner)]
    if isinstance(response.get("output"), list):
        return [item for part in response["output"] for item in read_message(part)]
    if "content" in response:
        return read_message({"role": "assistant", "content": response["content"]})
    return [Unread("assistant", "answer", response)]


def read_system(request: Any) -> list[str]:
    """The system prompt that stands beside the messages of a request, block by block."""
    if not isinstance(request, dict):
        return []
    found = [request.get(name) for name in ("system", "instructions", "systemInstruction", "system_instruction")]
    blocks = [block for each in found if each for block in (each if isinstance(each, list) else [each])]
    return [text for block in blocks for text in map(_shown, _flat(block)) if text]


def read_pieces(content: Any) -> Pieces:
    """Text and pictures of what is given as content; everything else in it as JSON."""
    return tuple(
        _piece(part) for part in (content if isinstance(content, list) else [content]) if part not in (None, "")
    )


def _choice(choice: Any, inner: str) -> list[Item]:
    if isinstance(choice, dict) and isinstance(choice.get(inner), dict):
        return read_message({"role": "assistant", **choice[inner]})
    return [Unread("assistant", "answer", choice)]


def _said(role: str, message: dict[str, Any]) -> Iterator[Item]:
    thoughts = [message[name] for name in _REASONING if isinstance(message.get(name), str) and message[name]]
    yield from map(Thought, thoughts[:1])
    for name in ("content", "parts"):
        content = message.get(name)
        for part in content if isinstance(content, list) else [content]:
            if part is not None and part != "":
                yield from _part(role, part)
    if message.get("refusal"):
        yield Declined(as_text(message["refusal"]))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else [calls] if calls else []:
        yield from _part("assistant", call)
    match message.get("function_call"):
        case {"name": name, "arguments": arguments}:
            yield ToolUse("", as_text(name), arguments)


def _part(role: str, part: Any) -> Iterator[Item]:
    if not isinstance(part, dict):
        yield Words(role, (as_text(part),))
    elif (thought := _thought(part)) is not None:
        yield thought
    elif (tool := _tool(part)) is not None:
        yield tool
    elif part.get("type") == "refusal":
        yield Declined(as_text(part.get("refusal")))
    elif (piece := _known_piece(part)) is None:
        yield Unread(role, _text(part.get("type")) or role, part)
    elif piece:  # Google signs thoughts with empty text
        yield Words(role, (piece,))


def _thought(part: dict[str, Any]) -> Thought | None:
    match part:
        case {"type": "thinking", "thinking": text}:
            return Thought(as_text(text))
        case {"type": "redacted_thinking"}:
            return Thought("")
        case {"type": "reasoning"}:
            shown = [each for name in ("content", "summary") if isinstance(each := part.get(name), list) and each]
            return Thought("\n".join(_shown(_known_piece(piece) or piece) for each in shown[:1] for piece in each))
        case {"thought": True, "text": text}:
            return Thought(as_text(text))
    return None


def _tool(part: dict[str, Any]) -> ToolUse | ToolOutput | None:
    called = part.get("functionCall") or part.get("function_call") or part.get("function")
    kind = _text(part.get("type"))
    if isinstance(called, dict) and "name" in called:
        arguments = called.get("arguments", called.get("args", {}))
        return ToolUse(_text(part.get("id")) or _text(called.get("id")), as_text(called["name"]), arguments)
    if kind.endswith("tool_use") and "name" in part:
        return ToolUse(_text(part.get("id")), as_text(part["name"]), part.get("input", {}))
    if kind.endswith("_call") and "name" in part:
        arguments = part.get("arguments", part.get("input", {}))
        return ToolUse(_text(part.get("call_id")) or _text(part.get("id")), as_text(part["name"]), arguments)
    return _output(kind, part)


def _output(kind: str, part: dict[str, Any]) -> ToolOutput | None:
    answered = part.get("functionResponse") or part.get("function_response")
    if isinstance(answered, dict):
        response, failed = answered.get("response"), False
        match response:  # Google's usual keys for what a function gave back, and for why it did not
            case {"output": output, **rest} if not rest:
                response = output
            case {"error": output, **rest} if not rest:
                response, failed = output, True
        pieces = read_pieces([response, *_list(answered.get("parts"))])
        return ToolOutput(_text(answered.get("id")), _text(answered.get("name")), pieces, failed)
    if kind.endswith("tool_result"):
        failed = part.get("is_error") is True
        return ToolOutput(_text(part.get("tool_use_id")), "", read_pieces(part.get("content")), failed)
    if kind.endswith("_call_output"):
        return ToolOutput(_text(part.get("call_id")), "", read_pieces(part.get("output")))
    return None


def _piece(part: Any) -> str | Picture:
    known = _known_piece(part)
    return as_text(part) if known is None else known


def _known_piece(part: Any) -> str | Picture | None:
    """Text or a picture; None for anything else."""
    match part:
        case str():
            return part
        case {"type": kind, "text": str() as text} if kind in _TEXTS:
            return text
        case {"text": str() as text} if "type" not in part:
            return text
    return _picture(part)


def _picture(part: Any) -> Picture | None:
    kind: str | None = None
    match part:
        case {"type": "image", "source": {"type": "base64", "media_type": str() as kind, "data": str() as data}} | {
            "inlineData": {"mimeType": str() as kind, "data": str() as data}
        } if kind.startswith("image/"):
            return Picture(f"data:{kind};base64,{data}", kind)
        case {"fileData": {"mimeType": str() as kind, "fileUri": str() as url}} if kind.startswith("image/"):
            return Picture(url, kind)
        case (
            {"type": "image", "source": {"type": "url", "url": str() as url}}
            | {"type": "image_url", "image_url": {"url": str() as url}}
            | {"type": "input_image" | "image_url", "image_url": str() as url}
        ):
            return Picture(url)
    return None


def _joined(items: Iterable[Item], speaker: str | None = None) -> list[Item]:
    """The items of one message, with neighbouring pieces of its text together."""
    found: list[Item] = []
    for is_text, group in groupby(items, lambda item: isinstance(item, Words)):
        run = list(group)
        words = [item for item in run if isinstance(item, Words)]
        if is_text:  # at once: to add piece by piece takes hours where a stranger sends a million of them
            found.append(Words(words[0].role, tuple(piece for each in words for piece in each.pieces), speaker))
        else:
            found += run
    return found


def _is_called(message: dict[str, Any]) -> bool:
    return isinstance(_tool(message), ToolUse) or _thought(message) is not None


def _flat(block: Any) -> Sequence[Any]:
    """A block of a system prompt; Google's has parts."""
    return block["parts"] if isinstance(block, dict) and isinstance(block.get("parts"), list) else [block]


def _shown(part: Any) -> str:
    piece = _piece(part)
    return piece if isinstance(piece, str) else as_text(part)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
