"""Requests of OpenAI's chat completions, read into neutral words and written from them."""

from collections.abc import Iterator
from typing import Any, Literal

from seatrial.gateway.fields import Payload
from seatrial.gateway.neutral.checks import (
    PROVIDER_RUN,
    Offer,
    effort_of,
    is_known,
    leave_unread,
    nearest,
    need_table,
    need_text,
    plain_text,
    tables,
    without_none,
)
from seatrial.gateway.neutral.types import Losses, Request, Tool, ToolChoice, Untranslatable
from seatrial.messages import Item, Message, Parts, Picture, Reasoning, Refusal, ToolCall, ToolResult

# The conversation.

_PICTURES_BELOW = "The pictures are in the next message."


def write_messages(items: tuple[Item, ...], losses: Losses) -> list[Payload]:
    """The conversation as messages. Raises Untranslatable.

    A tool's output has no pictures here: a message of the user, after all outputs of the turn, shows them instead.
    """
    messages: list[Payload] = []
    speaking: Payload | None = None  # the assistant's message that may still grow
    shown: list[Payload] = []
    for item in _without_signatures(items, losses):
        if shown and not isinstance(item, ToolResult):
            messages.append({"role": "user", "content": shown})
            shown = []
        if isinstance(item, ToolCall | Reasoning | Refusal) or (isinstance(item, Message) and item.role == "assistant"):
            if speaking is None or not _fits(speaking, item, losses):
                speaking = {"role": "assistant", "content": None}
                messages.append(speaking)
            _extend(speaking, item)
            continue
        speaking = None
        if isinstance(item, ToolResult):
            parts, pictures = (item.parts, []) if losses.strict else _split_pictures(item)
            messages.append({"role": "tool", "tool_call_id": item.id, "content": _write_parts(parts, "refused")})
            shown.extend(pictures)
        else:
            images = "allowed" if item.role == "user" else "refused"
            messages.append({"role": item.role, "content": _write_parts(item.parts, images)})
    return [*messages, {"role": "user", "content": shown}] if shown else messages


def _without_signatures(items: tuple[Item, ...], losses: Losses) -> Iterator[Item]:
    """The items, without thoughts of which only a signature was told."""
    for item in items:
        if isinstance(item, Reasoning) and item.signature is not None:
            losses.leave_out(f"{item.where}.{losses.name_of('signature')}")
        if not isinstance(item, Reasoning) or item.text or item.signature is None:
            yield item


def _split_pictures(output: ToolResult) -> tuple[Parts, list[Payload]]:
    pictures = tuple(part for part in output.parts if isinstance(part, Picture))
    if not pictures:
        return output.parts, []
    words = tuple(part for part in output.parts if isinstance(part, str))
    title = {"type": "text", "text": f"Pictures that the tool call {output.id} gave back:"}
    return words or (_PICTURES_BELOW,), [title, *(_write_image(part) for part in pictures)]


def _fits(message: Payload, item: Item, losses: Losses) -> bool:
    if isinstance(item, ToolCall):
        return True
    if "tool_calls" in message:
        if losses.strict:
            raise Untranslatable("content", "in chat completions, what the model says cannot come after its tool calls")
        return True
    return message["content"] is None and "refusal" not in message and not isinstance(item, Reasoning)


def _extend(message: Payload, item: Item) -> None:
    if isinstance(item, Message):
        message["content"] = _joined(message["content"], _write_parts(item.parts, images="refused"))
    elif isinstance(item, Reasoning):
        message["reasoning_content"] = message.get("reasoning_content", "") + item.text
    elif isinstance(item, Refusal):
        message["refusal"] = message.get("refusal", "") + item.text
    elif isinstance(item, ToolCall):
        function = {"name": item.name, "arguments": item.arguments}
        message.setdefault("tool_calls", []).append({"id": item.id, "type": "function", "function": function})


def _joined(before: str | list[Payload] | None, more: str | list[Payload]) -> str | list[Payload]:
    """What the model says in one message, also where it went on after its tool calls."""
    if before is None:
        return more
    first, second = (each if isinstance(each, list) else [{"type": "text", "text": each}] for each in (before, more))
    return [*first, *second]


def _write_parts(parts: Parts, images: str) -> str | list[Payload]:
    if (text := plain_text(parts)) is not None:
        return text
    written: list[Payload] = []
    for part in parts:
        if isinstance(part, str):
            written.append({"type": "text", "text": part})
        elif images == "refused":
            raise Untranslatable(part.where or "image", "chat completions take images from users only")
        else:
            written.append(_write_image(part))
    return written


def _write_image(part: Picture) -> Payload:
    return {"type": "image_url", "image_url": {"url": part.url, **without_none(detail=part.detail)}}


# What both of OpenAI's dialects say almost alike: tools, the choice among them, users and effort.

_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
_MODES: dict[str, Literal["auto", "none", "any"]] = {"auto": "auto", "none": "none", "required": "any"}
_WORDS = {mode: word for word, mode in _MODES.items()}


def read_tool(function: Payload, where: str, losses: Losses) -> Tool:
    leave_unread(function, ("type", "name", "description", "parameters", "strict"), losses, where)
    schema = function.get("parameters")
    return Tool(
        need_text(function.get("name"), f"{where}.name"),
        function.get("description"),
        None if schema is None else need_table(schema, f"{where}.parameters"),
        function.get("strict"),
    )


def write_tool(tool: Tool) -> Payload:
    """A function without what is a default in chat completions."""
    fields = without_none(description=tool.description, parameters=tool.schema, strict=tool.strict or None)
    return {"name": tool.name, **fields}


def read_choice(value: Any, nesting: str | None, losses: Losses) -> ToolChoice | None:
    """The choice of tools; a single one is named inside the object `nesting`, or directly."""
    if value is None:
        return None
    if isinstance(value, str) and value in _MODES:
        return ToolChoice(_MODES[value])
    choice = need_table(value, "tool_choice")
    if choice.get("type") not in ("function", "custom"):
        losses.leave_out("tool_choice", "only a tool that the agent runs itself can be chosen")
        return ToolChoice("auto")
    leave_unread(choice, ("type", nesting or "name"), losses, "tool_choice")
    named = need_table(choice.get(nesting), f"tool_choice.{nesting}") if nesting else choice
    return ToolChoice("one", need_text(named.get("name"), "tool_choice.name"))


def write_choice(choice: ToolChoice | None, nesting: str | None) -> Any:
    if choice is None:
        return None
    if choice.mode != "one":
        return _WORDS[choice.mode]
    return {"type": "function", **({nesting: {"name": choice.name}} if nesting else {"name": choice.name})}


def read_user(value: Any, losses: Losses) -> str | None:
    if value is not None and not isinstance(value, str):
        losses.hint("user")
        return None
    return value


def write_effort(request: Request, losses: Losses) -> Any:
    """How hard to think. A word that is not known is passed on, for the provider to judge."""
    effort = effort_of(request)
    if effort is None:
        return None
    if request.thinking is not None and request.thinking.on is False:
        losses.no_place("effort", "the request says too that the model is not to think")
        return None
    return nearest(effort, _EFFORTS) if is_known(effort) else effort


# Whole requests.

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
        return [ToolResult(call_id, _read_parts(message.get("content"), f"{where}.content", losses))]
    if role in ("system", "developer", "user"):
        leave_unread(message, ("role", "content"), losses, where)
        return [Message(role, _read_parts(message.get("content"), f"{where}.content", losses))]
    raise Untranslatable(f"{where}.role", f"there is no role {role!r}")


def _read_assistant(message: Payload, where: str, losses: Losses) -> list[Item]:
    read = ("role", "content", "tool_calls", "refusal", *_REASONING_NAMES)
    leave_unread(message, read, losses, where, {"annotations": ([],)})
    items: list[Item] = []
    for name in _REASONING_NAMES:
        if thought := message.get(name):
            items.append(Reasoning(need_text(thought, f"{where}.{name}"), where=f"{where}.{name}"))
            break
    calls = [_read_call(*found, losses) for found in tables(message.get("tool_calls"), f"{where}.tool_calls")]
    refusal = message.get("refusal")
    if message.get("content") or not (calls or refusal or items):
        items.append(Message("assistant", _read_parts(message.get("content"), f"{where}.content", losses)))
    if refusal:
        items.append(Refusal(need_text(refusal, f"{where}.refusal")))
    return [*items, *calls]


def _read_call(call: Payload, where: str, losses: Losses) -> ToolCall:
    leave_unread(call, ("id", "type", "function", "index"), losses, where)
    if call.get("type", "function") != "function":
        raise Untranslatable(f"{where}.type", "only calls of the type function can be")
    function = need_table(call.get("function"), f"{where}.function")
    leave_unread(function, ("name", "arguments"), losses, f"{where}.function")
    return ToolCall(
        need_text(call.get("id"), f"{where}.id"),
        need_text(function.get("name"), f"{where}.function.name"),
        need_text(function.get("arguments"), f"{where}.function.arguments"),
    )


def _read_parts(content: Any, where: str, losses: Losses) -> Parts:
    if content is None or isinstance(content, str):
        return (content or "",)
    return tuple(_read_part(*found, losses) for found in tables(content, where))


def _read_part(part: Payload, where: str, losses: Losses) -> str | Picture:
    if part.get("type") == "text":
        leave_unread(part, ("type", "text"), losses, where)
        return need_text(part.get("text"), f"{where}.text")
    if part.get("type") == "image_url":
        leave_unread(part, ("type", "image_url"), losses, where)
        image = need_table(part.get("image_url"), f"{where}.image_url")
        leave_unread(image, ("url", "detail"), losses, f"{where}.image_url")
        return Picture(need_text(image.get("url"), f"{where}.image_url.url"), image.get("detail"), where=where)
    raise Untranslatable(f"{where}.type", f"content of the type {part.get('type')!r} is neither text nor an image")


def write_request(request: Request, losses: Losses) -> Payload:
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
