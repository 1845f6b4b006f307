"""Requests of OpenAI's chat completions, read into neutral words and written from them."""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import (
    need_table,
    need_text,
    plain_text,
    refuse_unread,
    tables,
    without_none,
)
from seatrial.gateway.neutral.openai_tools import read_choice, read_tool, write_choice, write_tool
from seatrial.gateway.neutral.types import (
    Called,
    ImagePart,
    Item,
    Parts,
    Reasoned,
    Refused,
    Request,
    Returned,
    Said,
    Text,
    Untranslatable,
)

_SAME_NAME = ("model", "temperature", "top_p", "seed", "verbosity", "stream")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_LENGTHS = ("max_tokens", "max_completion_tokens")
_READ = (*_SAME_NAME, *_TOOL_FIELDS, *_LENGTHS, "messages", "stop", "response_format", "reasoning_effort")
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "modalities": (["text"],),
}
_REASONING_NAMES = ("reasoning_content", "reasoning")


def read_request(payload: Payload) -> Request:
    """The request in neutral words. Raises Untranslatable."""
    refuse_unread(payload, _READ, defaults=_DEFAULTS)
    stop = payload.get("stop")
    tools = payload.get("tools")
    length = payload.get("max_completion_tokens")
    return Request(
        model=payload.get("model"),
        temperature=payload.get("temperature"),
        top_p=payload.get("top_p"),
        seed=payload.get("seed"),
        verbosity=payload.get("verbosity"),
        stream=payload.get("stream"),
        items=tuple(item for found in tables(payload.get("messages"), "messages") for item in _read_message(*found)),
        tools=None if tools is None else tuple(_read_tool(*found) for found in tables(tools, "tools")),
        choice=read_choice(payload.get("tool_choice"), "function"),
        parallel=payload.get("parallel_tool_calls"),
        max_tokens=payload.get("max_tokens") if length is None else length,
        stop=stop if stop is None or isinstance(stop, list) else [stop],
        format=_read_format(payload.get("response_format")),
        effort=payload.get("reasoning_effort"),
    )


def _read_tool(tool: Payload, where: str) -> Any:
    refuse_unread(tool, ("type", "function"), where)
    if tool.get("type") != "function":
        raise Untranslatable(f"{where}.type", "only tools of the type function can be")
    function = need_table(tool.get("function"), f"{where}.function")
    return read_tool({**function, "strict": function.get("strict") or False}, f"{where}.function")


def _read_format(value: Any) -> Payload | None:
    """How the answer is to be shaped, in the flat form of the responses API; None for plain text."""
    if value is None or value == {"type": "text"}:
        return None
    shape = need_table(value, "response_format")
    refuse_unread(shape, ("type", "json_schema"), "response_format")
    return {"type": shape.get("type"), **need_table(shape.get("json_schema", {}), "response_format.json_schema")}


def _read_message(message: Payload, where: str) -> list[Item]:
    role = message.get("role")
    if role == "assistant":
        return _read_assistant(message, where)
    if role == "tool":
        refuse_unread(message, ("role", "content", "tool_call_id"), where)
        call_id = need_text(message.get("tool_call_id"), f"{where}.tool_call_id")
        return [Returned(call_id, _read_parts(message.get("content"), f"{where}.content"))]
    if role in ("system", "developer", "user"):
        refuse_unread(message, ("role", "content"), where)
        return [Said(role, _read_parts(message.get("content"), f"{where}.content"))]
    raise Untranslatable(f"{where}.role", f"there is no role {role!r}")


def _read_assistant(message: Payload, where: str) -> list[Item]:
    read = ("role", "content", "tool_calls", "refusal", *_REASONING_NAMES)
    refuse_unread(message, read, where, {"annotations": ([],)})
    items: list[Item] = []
    for name in _REASONING_NAMES:
        if thought := message.get(name):
            items.append(Reasoned(need_text(thought, f"{where}.{name}")))
            break
    calls = [_read_call(*found) for found in tables(message.get("tool_calls"), f"{where}.tool_calls")]
    refusal = message.get("refusal")
    if message.get("content") or not (calls or refusal or items):
        items.append(Said("assistant", _read_parts(message.get("content"), f"{where}.content")))
    if refusal:
        items.append(Refused(need_text(refusal, f"{where}.refusal")))
    return [*items, *calls]


def _read_call(call: Payload, where: str) -> Called:
    refuse_unread(call, ("id", "type", "function", "index"), where)
    if call.get("type", "function") != "function":
        raise Untranslatable(f"{where}.type", "only calls of the type function can be")
    function = need_table(call.get("function"), f"{where}.function")
    refuse_unread(function, ("name", "arguments"), f"{where}.function")
    return Called(
        need_text(call.get("id"), f"{where}.id"),
        need_text(function.get("name"), f"{where}.function.name"),
        need_text(function.get("arguments"), f"{where}.function.arguments"),
    )


def _read_parts(content: Any, where: str) -> Parts:
    if content is None or isinstance(content, str):
        return (Text(content or ""),)
    return tuple(_read_part(*found) for found in tables(content, where))


def _read_part(part: Payload, where: str) -> Text | ImagePart:
    if part.get("type") == "text":
        refuse_unread(part, ("type", "text"), where)
        return Text(need_text(part.get("text"), f"{where}.text"))
    if part.get("type") == "image_url":
        refuse_unread(part, ("type", "image_url"), where)
        image = need_table(part.get("image_url"), f"{where}.image_url")
        refuse_unread(image, ("url", "detail"), f"{where}.image_url")
        return ImagePart(need_text(image.get("url"), f"{where}.image_url.url"), image.get("detail"))
    raise Untranslatable(f"{where}.type", f"content of the type {part.get('type')!r} is neither text nor an image")


def write_request(request: Request) -> Payload:
    """The request in this dialect. Raises Untranslatable."""
    shape = dict(request.format) if request.format else None
    if shape and shape.get("type") == "json_schema":
        shape = {"type": "json_schema", "json_schema": {name: shape[name] for name in shape if name != "type"}}
    tools = request.tools
    return {
        "model": request.model,
        "messages": _write_messages(request.items),
        **without_none(
            tools=None if tools is None else [{"type": "function", "function": write_tool(tool)} for tool in tools],
            tool_choice=write_choice(request.choice, "function"),
            parallel_tool_calls=request.parallel,
            max_completion_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            stop=request.stop,
            seed=request.seed,
            response_format=shape,
            reasoning_effort=request.effort,
            verbosity=request.verbosity,
            stream=request.stream,
        ),
    }


def _write_messages(items: tuple[Item, ...]) -> list[Payload]:
    messages: list[Payload] = []
    speaking: Payload | None = None  # the assistant's message that may still grow
    for item in items:
        if isinstance(item, Called | Reasoned | Refused) or (isinstance(item, Said) and item.role == "assistant"):
            if speaking is None or not _fits(speaking, item):
                speaking = {"role": "assistant", "content": None}
                messages.append(speaking)
            _extend(speaking, item)
            continue
        speaking = None
        if isinstance(item, Returned):
            text = _write_parts(item.parts, images="refused")
            messages.append({"role": "tool", "tool_call_id": item.id, "content": text})
        else:
            images = "allowed" if item.role == "user" else "refused"
            messages.append({"role": item.role, "content": _write_parts(item.parts, images)})
    return messages


def _fits(message: Payload, item: Item) -> bool:
    if isinstance(item, Called):
        return True
    if "tool_calls" in message:
        raise Untranslatable("content", "in chat completions, what the model says cannot come after its tool calls")
    return message["content"] is None and "refusal" not in message and not isinstance(item, Reasoned)


def _extend(message: Payload, item: Item) -> None:
    if isinstance(item, Said):
        message["content"] = _write_parts(item.parts, images="refused")
    elif isinstance(item, Reasoned):
        message["reasoning_content"] = item.text
    elif isinstance(item, Refused):
        message["refusal"] = item.text
    elif isinstance(item, Called):
        function = {"name": item.name, "arguments": item.arguments}
        message.setdefault("tool_calls", []).append({"id": item.id, "type": "function", "function": function})


def _write_parts(parts: Parts, images: str) -> str | list[Payload]:
    if (text := plain_text(parts)) is not None:
        return text
    written: list[Payload] = []
    for part in parts:
        if isinstance(part, Text):
            written.append({"type": "text", "text": part.text})
        elif images == "refused":
            raise Untranslatable("image", "chat completions take images from users only")
        else:
            written.append({"type": "image_url", "image_url": {"url": part.url, **without_none(detail=part.detail)}})
    return written
