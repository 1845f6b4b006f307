"""Requests of Anthropic's messages API, read into neutral words and written from them."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Literal, TypedDict

from seatrial.gateway.fields import Payload
from seatrial.gateway.neutral.checks import (
    FAILED,
    PROVIDER_RUN,
    Offer,
    arguments_said,
    arguments_text,
    effort_of,
    inline_data,
    is_known,
    leave_unread,
    nearest,
    need_table,
    need_text,
    plain_text,
    tables,
    without_none,
)
from seatrial.gateway.neutral.types import Losses, Request, Thinking, Tool, ToolChoice, Untranslatable
from seatrial.messages import (
    Item,
    Message,
    Parts,
    Picture,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    is_system,
    split_system,
)
from seatrial.untrusted.json import text

# Blocks of messages, and the neutral items that they stand for.


def read_blocks(role: Literal["system", "user", "assistant"], content: Any, where: str, losses: Losses) -> list[Item]:
    if isinstance(content, str):
        return [Message(role, (content,))]
    items: list[Item] = []
    words: list[str | Picture] = []
    for block, place in tables(content, where):
        if block.get("type") in ("text", "image"):
            words.append(_read_word(block, place, losses))
            continue
        if block.get("type") == "redacted_thinking":  # encrypted; only Anthropic can read it
            losses.leave_out(f"{place} (redacted_thinking)")
            continue
        if words:
            items.append(Message(role, tuple(words)))
            words = []
        items.append(_read_block(block, place, losses))
    if words or not items:
        items.append(Message(role, tuple(words)))
    return items


def _read_word(block: Payload, where: str, losses: Losses) -> str | Picture:
    if block.get("type") == "text":
        leave_unread(block, ("type", "text"), losses, where, {"citations": ([],)})
        return need_text(block.get("text"), f"{where}.text")
    if block.get("type") != "image":
        raise Untranslatable(f"{where}.type", f"{block.get('type')!r} is neither text nor an image")
    leave_unread(block, ("type", "source"), losses, where)
    source = need_table(block.get("source"), f"{where}.source")
    if source.get("type") == "url":
        return Picture(need_text(source.get("url"), f"{where}.source.url"), where=where)
    if source.get("type") == "base64":
        kind, data = (need_text(source.get(name), f"{where}.source.{name}") for name in ("media_type", "data"))
        return Picture(f"data:{kind};base64,{data}", where=where)
    raise Untranslatable(f"{where}.source.type", "an image has to be base64 or a URL")


def _read_block(block: Payload, where: str, losses: Losses) -> Item:
    kind = block.get("type")
    if kind == "tool_use":
        leave_unread(block, ("type", "id", "name", "input"), losses, where, {"caller": ({"type": "direct"},)})
        return read_call(block, where)
    if kind == "tool_result":
        return _read_result(block, where, losses)
    if kind == "thinking":
        leave_unread(block, ("type", "thinking", "signature"), losses, where)
        thought = need_text(block.get("thinking"), f"{where}.thinking")
        return Reasoning(thought, text(block.get("signature")) or None, where)
    raise Untranslatable(f"{where}.type", f"there is no place for blocks of the type {kind!r}")


def read_call(block: Payload, where: str) -> ToolCall:
    """A block of the type `tool_use`, of a request or an answer."""
    given = need_table(block.get("input"), f"{where}.input")
    call_id, name = (need_text(block.get(field), f"{where}.{field}") for field in ("id", "name"))
    return ToolCall(call_id, name, arguments_text(given, f"{where}.input"))


def _read_result(block: Payload, where: str, losses: Losses) -> ToolResult:
    leave_unread(block, ("type", "tool_use_id", "content", "is_error"), losses, where)
    content = block.get("content")
    parts: Parts = (content or "",) if content is None or isinstance(content, str) else ()
    if isinstance(content, list):
        parts = tuple(_read_output(*found, losses) for found in tables(content, f"{where}.content"))
    if block.get("is_error"):
        words = plain_text(parts)
        parts = (FAILED, *parts) if words is None else (FAILED + words,)
    return ToolResult(need_text(block.get("tool_use_id"), f"{where}.tool_use_id"), parts)


def _read_output(block: Payload, where: str, losses: Losses) -> str | Picture:
    if block.get("type") == "tool_reference" and not losses.strict:
        # A tool that the agent's own search for tools has found; see `_is_unknown` for what follows from it.
        return f"The tool {need_text(block.get('tool_name'), f'{where}.tool_name')} can be used now."
    return _read_word(block, where, losses)


def write_blocks(items: Iterable[Item], losses: Losses) -> list[Payload]:
    return [block for item in items for block in _write_item(item, losses)]


def _write_item(item: Item, losses: Losses) -> list[Payload]:
    if isinstance(item, Message):
        return [_write_word(part, losses) for part in item.parts]
    if isinstance(item, ToolCall):
        given = arguments_said(item.arguments, f"arguments of {item.name}", losses)
        return [{"type": "tool_use", "id": item.id, "name": item.name, "input": given}]
    if isinstance(item, ToolResult):
        words = plain_text(item.parts)
        content = [_write_word(part, losses) for part in item.parts] if words is None else words
        return [{"type": "tool_result", "tool_use_id": item.id, "content": content}]
    if isinstance(item, Refusal):
        if losses.strict:
            raise Untranslatable("refusal")
        return [{"type": "text", "text": item.text}]
    return [{"type": "thinking", "thinking": item.text, "signature": item.signature or ""}]


def write_text_blocks(parts: Parts, losses: Losses) -> list[Payload]:
    """Blocks of text alone, as `system` wants them."""
    for part in parts:
        if isinstance(part, Picture):
            raise Untranslatable(part.where or "image", "Anthropic takes images from users only")
    return [_write_word(part, losses) for part in parts]


def _write_word(part: str | Picture, losses: Losses) -> Payload:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.detail not in (None, "auto"):
        losses.leave_out(f"{part.where or 'image'}.detail")
    held = inline_data(part)
    if held is None:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    return {"type": "image", "source": {"type": "base64", "media_type": held[0], "data": held[1]}}


# Settings: how hard to think, how to shape the answer, and for whom it is.

SETTINGS = ("thinking", "output_config", "output_format", "metadata")

_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_LONGEST_USER = 64
_FORMAT_NAME = "answer"
"""OpenAI's dialects demand a name for a format, which is for their caches only."""


class AnswerSettings(TypedDict):
    """Those fields of a Request."""

    effort: Any
    thinking: Thinking | None
    format: Payload | None
    user: str | None


def read_settings(payload: Payload, losses: Losses) -> AnswerSettings:
    """The settings in neutral words. Raises Untranslatable."""
    config = need_table(payload.get("output_config") or {}, "output_config")
    leave_unread(config, ("effort", "format"), losses, "output_config")
    older = payload.get("output_format")  # its name before there was `output_config`
    name = "output_format" if older is not None else "output_config.format"
    return {
        "effort": config.get("effort"),
        "thinking": _read_thinking(payload.get("thinking"), losses),
        "format": _read_format(config.get("format") if older is None else older, name, losses),
        "user": _read_user(payload.get("metadata"), losses),
    }


def _read_thinking(value: Any, losses: Losses) -> Thinking | None:
    if value is None:
        return None
    asked = need_table(value, "thinking")
    leave_unread(asked, ("type", "budget_tokens", "display"), losses, "thinking")
    kind, budget = asked.get("type"), asked.get("budget_tokens")
    if kind == "disabled":
        return Thinking(on=False)
    if kind not in ("enabled", "adaptive"):
        losses.leave_out("thinking.type", f"there is no thinking of the type {kind!r}")
        return None
    return Thinking(True, budget if type(budget) is int else None, asked.get("display") != "omitted")


def _read_format(value: Any, where: str, losses: Losses) -> Payload | None:
    if value is None:
        return None
    shape = need_table(value, where)
    leave_unread(shape, ("type", "schema"), losses, where)
    if shape.get("type") != "json_schema":
        losses.leave_out(f"{where}.type", f"there is no format {shape.get('type')!r}")
        return None
    return {"type": "json_schema", "name": _FORMAT_NAME, "schema": shape.get("schema"), "strict": True}


def _read_user(value: Any, losses: Losses) -> str | None:
    user = value.get("user_id") if isinstance(value, dict) else None
    if isinstance(user, str) and len(user) <= _LONGEST_USER and len(value) == 1:
        return user
    if value:
        losses.hint("metadata")
    return None


def write_settings(request: Request, losses: Losses) -> Payload:
    """The settings in this dialect. Raises Untranslatable."""
    config = without_none(effort=_write_effort(request, losses), format=_write_format(request, losses))
    metadata = {"user_id": request.user} if request.user is not None else None
    return without_none(
        thinking=_write_thinking(request, losses, thinks="effort" in config),
        output_config=config or None,
        metadata=metadata,
    )


def _is_off(request: Request) -> bool:
    return request.effort == "none" or (request.thinking is not None and request.thinking.on is False)


def _write_effort(request: Request, losses: Losses) -> str | None:
    effort = effort_of(request)
    if effort is None or _is_off(request):
        return None
    if not is_known(effort):
        losses.no_place("effort", f"there is no effort {effort!r:.40}")
        return None
    return nearest(effort, _EFFORTS)


def _write_thinking(request: Request, losses: Losses, *, thinks: bool) -> Payload | None:
    thinking = request.thinking or Thinking()
    if _is_off(request):
        return {"type": "disabled"}
    # Anthropic refuses to think at a temperature other than 1, or before a call that it is forced to make.
    cool = request.temperature not in (None, 1)
    forced = request.choice is not None and request.choice.mode in ("any", "one")
    if (thinks or thinking.on) and not cool and not forced:
        return {"type": "adaptive", **({"display": "summarized"} if thinking.shown else {})}
    if thinking.on or thinking.shown:
        losses.hint(losses.name_of("thinking"))
    return None


def _write_format(request: Request, losses: Losses) -> Payload | None:
    shape = request.format
    if shape is None:
        return None
    if shape.get("type") != "json_schema" or not isinstance(shape.get("schema"), dict):
        losses.no_place("format", "Anthropic takes a JSON schema only")
        return None
    return {"type": "json_schema", "schema": shape["schema"]}


# Whole requests.

DEFAULT_MAX_TOKENS = 32_000
"""Written when a request says no length, which this dialect demands; every model since Claude 3.7 can do it."""

NAMES = {
    "effort": "output_config.effort",
    "format": "output_config.format",
    "parallel": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
    "thinking": "thinking",
    "choice": "tool_choice",
    "user": "metadata.user_id",
}
"""How this dialect calls the fields of a Request that have another name there."""

_SAME_NAME = ("model", "max_tokens", "temperature", "top_p", "stream")
_READ = (*_SAME_NAME, *SETTINGS, "messages", "system", "tools", "tool_choice", "stop_sequences")
_TOOL_FIELDS = ("type", "name", "description", "input_schema", "strict")
_TOOL_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "defer_loading": (False,),
    "allowed_callers": (["direct"],),
    "eager_input_streaming": (False, True),  # how large the pieces of a stream are changes no answer
}
_MODES: dict[str, Literal["auto", "none", "any", "one"]] = {"auto": "auto", "none": "none", "any": "any", "tool": "one"}
_WORDS = {mode: word for word, mode in _MODES.items()}


def read_request(payload: Payload, losses: Losses) -> Request:
    leave_unread(payload, _READ, losses)
    items: list[Item] = []
    if system := payload.get("system"):
        items.extend(read_blocks("system", system, "system", losses))
    for message, where in tables(payload.get("messages"), "messages"):
        leave_unread(message, ("role", "content"), losses, where)
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            raise Untranslatable(f"{where}.role", f"there is no role {role!r}")
        items.extend(read_blocks(role, message.get("content"), f"{where}.content", losses))
    offer = _read_offer(payload, losses)
    return Request(
        model=payload.get("model"),
        max_tokens=payload.get("max_tokens"),
        temperature=payload.get("temperature"),
        top_p=payload.get("top_p"),
        stream=payload.get("stream"),
        items=tuple(items),
        tools=offer.tools,
        choice=offer.choice,
        parallel=offer.parallel,
        stop=payload.get("stop_sequences"),
        **read_settings(payload, losses),
    )


def _read_offer(payload: Payload, losses: Losses) -> Offer:
    choice, parallel = _read_choice(payload.get("tool_choice"), losses)
    given = payload.get("tools")
    found = None if given is None else [_read_tool(*each, payload, losses) for each in tables(given, "tools")]
    return Offer.of(found, losses, choice=choice, parallel=parallel)


def _is_unknown(tool: Payload, payload: Payload) -> bool:
    """Whether the model is not to know of a tool yet: it is deferred, and no search for tools has found it."""
    if not tool.get("defer_loading"):
        return False
    blocks = [block for message in _each(payload.get("messages")) for block in _each(message.get("content"))]
    told = [part for block in blocks for part in _each(block.get("content"))]
    return all(part.get("tool_name") != tool.get("name") for part in told)


def _each(value: Any) -> list[Payload]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _read_tool(tool: Payload, where: str, payload: Payload, losses: Losses) -> Tool | None:
    kind = tool.get("type")
    if kind not in (None, "custom"):
        losses.leave_out(f"{where} ({kind})", PROVIDER_RUN)
        return None
    leave_unread(
        tool, _TOOL_FIELDS if losses.strict else (*_TOOL_FIELDS, "defer_loading"), losses, where, _TOOL_DEFAULTS
    )
    if _is_unknown(tool, payload):
        return None
    schema = need_table(tool.get("input_schema"), f"{where}.input_schema")
    name = need_text(tool.get("name"), f"{where}.name")
    return Tool(name, tool.get("description"), schema, tool.get("strict") or False)


def _read_choice(value: Any, losses: Losses) -> tuple[ToolChoice | None, bool | None]:
    if value is None:
        return None, None
    choice = need_table(value, "tool_choice")
    leave_unread(choice, ("type", "name", "disable_parallel_tool_use"), losses, "tool_choice")
    mode = _MODES.get(str(choice.get("type")))
    if mode is None:
        raise Untranslatable("tool_choice.type", f"there is no choice {choice.get('type')!r}")
    single = choice.get("disable_parallel_tool_use")
    name = need_text(choice.get("name"), "tool_choice.name") if mode == "one" else None
    return ToolChoice(mode, name), None if single is None else not single


def write_request(request: Request, losses: Losses) -> Payload:
    """The request in this dialect. Raises Untranslatable.

    Neighbouring messages of one side become one message, as this dialect wants it. `developer` is written as `system`.
    """
    for name in ("seed", "verbosity"):
        if getattr(request, name) not in (None, "medium" if name == "verbosity" else None):
            losses.no_place(name)
    temperature = request.temperature
    if isinstance(temperature, int | float) and temperature > 1:
        losses.no_place("temperature", "Anthropic's goes up to 1 only")
        temperature = None
    system, items = split_system(_with_own_thoughts(request.items, losses))
    tools = request.tools
    return {
        "model": request.model,
        **without_none(system=_write_system(system, losses)),
        "messages": _write_messages(items, losses),
        "max_tokens": DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        **without_none(
            tools=None if tools is None else [_write_tool(tool) for tool in tools],
            tool_choice=_write_choice(request),
            temperature=temperature,
            top_p=request.top_p,
            stop_sequences=request.stop,
            stream=request.stream,
        ),
        **write_settings(request, losses),
    }


def _write_tool(tool: Tool) -> Payload:
    schema = tool.schema or {"type": "object", "properties": {}}
    fields = without_none(description=tool.description, strict=tool.strict or None)
    return {"name": tool.name, "input_schema": schema, **fields}


def _write_choice(request: Request) -> Payload | None:
    choice, parallel = request.choice, request.parallel
    if choice is None and parallel is None:
        return None
    written: Payload = {"type": _WORDS[choice.mode if choice else "auto"]}
    if choice and choice.name is not None:
        written["name"] = choice.name
    if parallel is not None and written["type"] != "none":
        written["disable_parallel_tool_use"] = not parallel
    return written


def _write_system(messages: list[Message], losses: Losses) -> str | list[Payload] | None:
    if not messages:
        return None
    parts: Parts = tuple(part for message in messages for part in message.parts)
    text = plain_text(parts)
    return write_text_blocks(parts, losses) if text is None else text


def _side(item: Item) -> str:
    if is_system(item):
        return "system"
    return (
        "user" if isinstance(item, ToolResult) or (isinstance(item, Message) and item.role == "user") else "assistant"
    )


def _with_own_thoughts(items: tuple[Item, ...], losses: Losses) -> tuple[Item, ...]:
    """The items without thoughts that nobody has signed: Anthropic refuses those, and does without them."""
    if losses.strict:
        return items
    for item in items:
        if isinstance(item, Reasoning) and item.signature is None:
            losses.hint(f"{item.where} (reasoning)" if item.where.endswith("]") else item.where)
    return tuple(item for item in items if not isinstance(item, Reasoning) or item.signature is not None)


def _write_messages(items: Sequence[Item], losses: Losses) -> list[Payload]:
    messages: list[Payload] = []
    for side, group in groupby(items, key=_side):
        found = list(group)
        only = found[0] if len(found) == 1 else None
        if isinstance(only, Message) and (text := plain_text(only.parts)) is not None:
            messages.append({"role": side, "content": text})
        else:
            # Empty text says nothing, and this dialect refuses it in a block.
            said = (item for item in found if not _is_empty(item))
            messages.append({"role": side, "content": write_blocks(said, losses)})
    return messages


def _is_empty(item: Item) -> bool:
    return isinstance(item, Message) and item.parts == ("",)
