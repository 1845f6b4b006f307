"""Reads messages, answers and requests of every dialect into items. They are strangers' text in strangers' form.

Parts are told apart by their form and not by the dialect of their call, for agents mix them. Nothing here raises, and
what is not understood is kept as it is, so that nothing is left out. The strict readers, which refuse what they could
not say in another dialect, are in `gateway/neutral/`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

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
)
from seatrial.model.trace import ModelCall
from seatrial.untrusted.json import items

_TEXTS = ("text", "input_text", "output_text", "summary_text", "reasoning_text")
_REASONING = ("reasoning_content", "reasoning")
_TOOL_ROLES = ("tool", "function")


def read_messages(messages: Iterable[Any]) -> list[AnyItem]:
    return [item for message in messages for item in read_message(message)]


def read_message(message: Any) -> list[AnyItem]:
    """What one message of a request says. A message of the responses API may be a call, a result or a thought."""
    if isinstance(message, str):
        return [Message("user", (message,))]
    if not isinstance(message, dict):
        return [Unknown("user", "message", message)]
    if not isinstance(message.get("role"), str) and not isinstance(message.get("parts"), list):
        return _joined(_part("assistant" if _is_called(message) else "user", message))
    role = _text(message.get("role")) or "user"  # which Google's agents need not say
    if role in _TOOL_ROLES:
        name = _text(message.get("name"))
        return [ToolResult(_text(message.get("tool_call_id")), _parts(message.get("content")), name)]
    return _joined(_said(role, message), _text(message.get("name")) or None)


def read_answer(response: Any) -> list[AnyItem]:
    if not isinstance(response, dict):
        return []
    for name, inner in (("choices", "message"), ("candidates", "content")):
        if isinstance(found := response.get(name), list):
            return [item for choice in found for item in _choice(choice, inner)]
    if isinstance(response.get("output"), list):
        return [item for part in response["output"] for item in read_message(part)]
    if "content" in response:
        return read_message({"role": "assistant", "content": response["content"]})
    return [Unknown("assistant", "answer", response)]


def read_system(request: Any) -> list[str]:
    """The system prompt that stands beside the messages of a request, block by block."""
    if not isinstance(request, dict):
        return []
    found = [request.get(name) for name in ("system", "instructions", "systemInstruction", "system_instruction")]
    blocks = [block for each in found if each for block in (each if isinstance(each, list) else [each])]
    return [text for block in blocks for text in map(_shown, _flat(block)) if text]


def _parts(content: Any) -> Parts:
    """Text and pictures of what is given as content; everything else in it as JSON."""
    return tuple(
        _any_part(part) for part in (content if isinstance(content, list) else [content]) if part not in (None, "")
    )


def _choice(choice: Any, inner: str) -> list[AnyItem]:
    if isinstance(choice, dict) and isinstance(choice.get(inner), dict):
        return read_message({"role": "assistant", **choice[inner]})
    return [Unknown("assistant", "answer", choice)]


def _said(role: str, message: dict[str, Any]) -> Iterator[AnyItem]:
    thoughts = [message[name] for name in _REASONING if isinstance(message.get(name), str) and message[name]]
    yield from map(Reasoning, thoughts[:1])
    for name in ("content", "parts"):
        content = message.get(name)
        for part in content if isinstance(content, list) else [content]:
            if part is not None and part != "":
                yield from _part(role, part)
    if message.get("refusal"):
        yield Refusal(as_text(message["refusal"]))
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else [calls] if calls else []:
        yield from _part("assistant", call)
    match message.get("function_call"):
        case {"name": name, "arguments": arguments}:
            yield ToolCall("", as_text(name), arguments)


def _part(role: str, part: Any) -> Iterator[AnyItem]:
    if not isinstance(part, dict):
        yield Message(role, (as_text(part),))
    elif (thought := _thought(part)) is not None:
        yield thought
    elif (tool := _tool(part)) is not None:
        yield tool
    elif part.get("type") == "refusal":
        yield Refusal(as_text(part.get("refusal")))
    elif (known := _known_part(part)) is None:
        yield Unknown(role, _text(part.get("type")) or role, part)
    elif known:  # Google signs thoughts with empty text
        yield Message(role, (known,))


def _thought(part: dict[str, Any]) -> Reasoning | None:
    match part:
        case {"type": "thinking", "thinking": text}:
            return Reasoning(as_text(text))
        case {"type": "redacted_thinking"}:
            return Reasoning("")
        case {"type": "reasoning"}:
            shown = [each for name in ("content", "summary") if isinstance(each := part.get(name), list) and each]
            return Reasoning("\n".join(_shown(_known_part(inner) or inner) for each in shown[:1] for inner in each))
        case {"thought": True, "text": text}:
            return Reasoning(as_text(text))
    return None


def _tool(part: dict[str, Any]) -> ToolCall | ToolResult | None:
    called = part.get("functionCall") or part.get("function_call") or part.get("function")
    kind = _text(part.get("type"))
    if isinstance(called, dict) and "name" in called:
        arguments = called.get("arguments", called.get("args", {}))
        return ToolCall(_text(part.get("id")) or _text(called.get("id")), as_text(called["name"]), arguments)
    if kind.endswith("tool_use") and "name" in part:
        return ToolCall(_text(part.get("id")), as_text(part["name"]), part.get("input", {}))
    if kind.endswith("_call") and "name" in part:
        arguments = part.get("arguments", part.get("input", {}))
        return ToolCall(_text(part.get("call_id")) or _text(part.get("id")), as_text(part["name"]), arguments)
    return _output(kind, part)


def _output(kind: str, part: dict[str, Any]) -> ToolResult | None:
    answered = part.get("functionResponse") or part.get("function_response")
    if isinstance(answered, dict):
        response, failed = answered.get("response"), False
        match response:  # Google's usual keys for what a function gave back, and for why it did not
            case {"output": output, **rest} if not rest:
                response = output
            case {"error": output, **rest} if not rest:
                response, failed = output, True
        parts = _parts([response, *items(answered.get("parts"))])
        return ToolResult(_text(answered.get("id")), parts, _text(answered.get("name")), failed)
    if kind.endswith("tool_result"):
        failed = part.get("is_error") is True
        return ToolResult(_text(part.get("tool_use_id")), _parts(part.get("content")), failed=failed)
    if kind.endswith("_call_output"):
        return ToolResult(_text(part.get("call_id")), _parts(part.get("output")))
    return None


def _any_part(part: Any) -> str | Picture:
    known = _known_part(part)
    return as_text(part) if known is None else known


def _known_part(part: Any) -> str | Picture | None:
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
            return Picture(f"data:{kind};base64,{data}", media_type=kind)
        case {"fileData": {"mimeType": str() as kind, "fileUri": str() as url}} if kind.startswith("image/"):
            return Picture(url, media_type=kind)
        case (
            {"type": "image", "source": {"type": "url", "url": str() as url}}
            | {"type": "image_url", "image_url": {"url": str() as url}}
            | {"type": "input_image" | "image_url", "image_url": str() as url}
        ):
            return Picture(url)
    return None


def _joined(items: Iterable[AnyItem], name: str | None = None) -> list[AnyItem]:
    """The items of one message, with neighbouring parts of its text together."""
    found: list[AnyItem] = []
    for is_text, group in groupby(items, lambda item: isinstance(item, Message)):
        run = list(group)
        words = [item for item in run if isinstance(item, Message)]
        if is_text:  # at once: to add piece by piece takes hours where a stranger sends a million of them
            found.append(Message(words[0].role, tuple(part for each in words for part in each.parts), name))
        else:
            found += run
    return found


def _is_called(message: dict[str, Any]) -> bool:
    return isinstance(_tool(message), ToolCall) or _thought(message) is not None


def _flat(block: Any) -> Sequence[Any]:
    """A block of a system prompt; Google's has parts."""
    return block["parts"] if isinstance(block, dict) and isinstance(block.get("parts"), list) else [block]


def _shown(part: Any) -> str:
    found = _any_part(part)
    return found if isinstance(found, str) else as_text(part)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# What a request asks for beside its messages: tools, and how hard the model is to think.

Definition = dict[str, Any]


def read_tools(request: Any) -> list[Definition]:
    """The definitions of tools in the form of chat completions, which others read; those of a provider as they are."""
    tools = request.get("tools") if isinstance(request, dict) else None
    return [defined for tool in items(tools) for defined in _definitions(tool)]


def tool_name(definition: Definition) -> str:
    """The name of a tool, or what kind of thing it is."""
    match definition:
        case {"function": {"name": str() as name}} | {"name": str() as name} | {"type": str() as name}:
            return name
    return next(iter(definition), "tool")


def read_effort(request: Any) -> str | float | None:
    """How hard the model was asked to think: a word, or a number of tokens."""
    found: Any = None
    match request:
        case {"reasoning_effort": found} | {"reasoning": {"effort": found}} | {"output_config": {"effort": found}}:
            pass
        case {"thinking": {"budget_tokens": found}}:
            pass
        case {"generationConfig": {"thinkingConfig": {"thinkingLevel": found}}}:
            pass
        case {"generationConfig": {"thinkingConfig": {"thinkingBudget": found}}}:
            pass
    return found if type(found) in (str, int, float) else None


def is_answered(call: ModelCall) -> bool:
    """Whether a model answered, if only in part. The body of an error is no answer."""
    return call.response is not None and (call.status is None or call.status < 400)


def _definitions(tool: Any) -> list[Definition]:
    match tool:
        case {"functionDeclarations": list() as declared} | {"function_declarations": list() as declared}:
            return [_function(each, "parametersJsonSchema") for each in declared if isinstance(each, dict)]
        case {"type": "function", "function": dict()}:
            return [tool]
        case {"type": "function", "name": str()}:
            return [_function(tool, "parameters")]
        case {"name": str(), "input_schema": dict()}:
            return [_function(tool, "input_schema")]
        case dict():
            return [tool]
    return []


def _function(tool: Definition, schema: str) -> Definition:
    named = {name: tool[name] for name in ("name", "description") if name in tool}
    parameters = tool.get(schema, tool.get("parameters"))
    return {"type": "function", "function": {**named, **({} if parameters is None else {"parameters": parameters})}}
