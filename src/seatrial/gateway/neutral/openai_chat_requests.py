"""Requests of OpenAI's chat completions, read into neutral words and written from them."""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import (
    leave_unread,
    need_table,
    need_text,
    tables,
    without_none,
)
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.openai_chat_messages import write_messages
from seatrial.gateway.neutral.openai_tools import (
    read_choice,
    read_tool,
    read_user,
    write_choice,
    write_effort,
    write_tool,
)
from seatrial.gateway.neutral.tool_offer import PROVIDER_RUN, Offer
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
    Tool,
    Untranslatable,
)

NAMES = {
    "choice": "tool_choice",
    "effort": "reasoning_effort",
    "format": "response_format",
    "parallel": "parallel_tool_calls",
    "thinking": "reasoning_effort",
}
"""How this dialect calls the fields of a Request that have another name there."""

_SAME_NAME = ("model", "temperature", "top_p", "seed", "verbosity", "stream")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_LENGTHS = ("max_tokens", "max_completion_tokens")
_READ = (*_SAME_NAME, *_TOOL_FIELDS, *_LENGTHS, "messages", "stop", "response_format", "reasoning_effort", "user")
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


def read_request(payload: Payload, losses: Losses) -> Request:
    """The request in neutral words. Raises Untranslatable."""
    leave_unread(payload, _READ, losses, defaults=_DEFAULTS)
    stop = payload.get("stop")
    given = payload.get("tools")
    found = None if given is None else [_read_tool(*each, losses) for each in tables(given, "tools")]
    choice = read_choice(payload.get("tool_choice"), "function", losses)
    offer = Offer.of(found, losses, choice=choice, parallel=payload.get("parallel_tool_calls"))
    messages = tables(payload.get("messages"), "messages")
    length = payload.get("max_completion_tokens")
    return Request(
        model=payload.get("model"),
        temperature=payload.get("temperature"),
        top_p=payload.get("top_p"),
        seed=payload.get("seed"),
        verbosity=payload.get("verbosity"),
        stream=payload.get("stream"),
        items=tuple(item for each in messages for item in _read_message(*each, losses)),
        tools=offer.tools,
        choice=offer.choice,
        parallel=offer.parallel,
        max_tokens=payload.get("max_tokens") if length is None else length,
        stop=stop if stop is None or isinstance(stop, list) else [stop],
        format=_read_format(payload.get("response_format"), losses),
        effort=payload.get("reasoning_effort"),
        user=read_user(payload.get("user"), losses),
    )


def _read_tool(tool: Payload, where: str, losses: Losses) -> Tool | None:
    if tool.get("type") != "function":
        losses.leave_out(f"{where} ({tool.get('type')})", PROVIDER_RUN)
        return None
    leave_unread(tool, ("type", "function"), losses, where)
    function = need_table(tool.get("function"), f"{where}.function")
    return read_tool({**function, "strict": function.get("strict") or False}, f"{where}.function", losses)


def _read_format(value: Any, losses: Losses) -> Payload | None:
    """How the answer is to be shaped, in the flat form of the responses API; None for plain text."""
    if value is None or value == {"type": "text"}:
        return None
    shape = need_table(value, "response_format")
    leave_unread(shape, ("type", "json_schema"), losses, "response_format")
    return {"type": shape.get("type"), **need_table(shape.get("json_schema", {}), "response_format.json_schema")}


def _read_message(message: Payload, where: str, losses: Losses) -> list[Item]:
    role = message.get("role")
    if role == "assistant":
        return _read_assistant(message, where, losses)
    if role == "tool":
        leave_unread(message, ("role", "content", "tool_call_id"), losses, where)
        call_id = need_text(message.get("tool_call_id"), f"{where}.tool_call_id")
        return [Returned(call_id, _read_parts(message.get("content"), f"{where}.content", losses))]
    if role in ("system", "developer", "user"):
        leave_unread(message, ("role", "content"), losses, where)
        return [Said(role, _read_parts(message.get("content"), f"{where}.content", losses))]
    raise Untranslatable(f"{where}.role", f"there is no role {role!r}")


def _read_assistant(message: Payload, where: str, losses: Losses) -> list[Item]:
    read = ("role", "content", "tool_calls", "refusal", *_REASONING_NAMES)
    leave_unread(message, read, losses, where, {"annotations": ([],)})
    items: list[Item] = []
    for name in _REASONING_NAMES:
        if thought := message.get(name):
            items.append(Reasoned(need_text(thought, f"{where}.{name}"), where=f"{where}.{name}"))
            break
    calls = [_read_call(*found, losses) for found in tables(message.get("tool_calls"), f"{where}.tool_calls")]
    refusal = message.get("refusal")
    if message.get("content") or not (calls or refusal or items):
        items.append(Said("assistant", _read_parts(message.get("content"), f"{where}.content", losses)))
    if refusal:
        items.append(Refused(need_text(refusal, f"{where}.refusal")))
    return [*items, *calls]


def _read_call(call: Payload, where: str, losses: Losses) -> Called:
    leave_unread(call, ("id", "type", "function", "index"), losses, where)
    if call.get("type", "function") != "function":
        raise Untranslatable(f"{where}.type", "only calls of the type function can be")
    function = need_table(call.get("function"), f"{where}.function")
    leave_unread(function, ("name", "arguments"), losses, f"{where}.function")
    return Called(
        need_text(call.get("id"), f"{where}.id"),
        need_text(function.get("name"), f"{where}.function.name"),
        need_text(function.get("arguments"), f"{where}.function.arguments"),
    )


def _read_parts(content: Any, where: str, losses: Losses) -> Parts:
    if content is None or isinstance(content, str):
        return (Text(content or ""),)
    return tuple(_read_part(*found, losses) for found in tables(content, where))


def _read_part(part: Payload, where: str, losses: Losses) -> Text | ImagePart:
    if part.get("type") == "text":
        leave_unread(part, ("type", "text"), losses, where)
        return Text(need_text(part.get("text"), f"{where}.text"))
    if part.get("type") == "image_url":
        leave_unread(part, ("type", "image_url"), losses, where)
        image = need_table(part.get("image_url"), f"{where}.image_url")
        leave_unread(image, ("url", "detail"), losses, f"{where}.image_url")
        return ImagePart(need_text(image.get("url"), f"{where}.image_url.url"), image.get("detail"), where)
    raise Untranslatable(f"{where}.type", f"content of the type {part.get('type')!r} is neither text nor an image")


def write_request(request: Request, losses: Losses) -> Payload:
    """The request in this dialect. Raises Untranslatable."""
    shape = dict(request.format) if request.format else None
    if shape and shape.get("type") == "json_schema":
        shape = {"type": "json_schema", "json_schema": {name: shape[name] for name in shape if name != "type"}}
    tools = request.tools
    effort = write_effort(request, losses)
    thinking = request.thinking
    if thinking is not None and thinking.on and effort is None:
        losses.no_place("thinking")
    elif thinking is not None and thinking.on is None:  # a wish to be shown thoughts, which others do anyway
        losses.hint(losses.name_of("thinking"))
    return {
        "model": request.model,
        "messages": write_messages(request.items, losses),
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
            reasoning_effort=effort,
            verbosity=request.verbosity,
            user=request.user,
            stream=request.stream,
        ),
    }
