"""Requests of Anthropic's messages API, read into neutral words and written from them."""

from itertools import groupby
from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.anthropic_blocks import read_blocks, write_blocks, write_text_blocks
from seatrial.gateway.neutral.checks import need_table, need_text, plain_text, refuse_unread, tables, without_none
from seatrial.gateway.neutral.types import Item, Parts, Request, Returned, Said, Text, Tool, ToolChoice, Untranslatable

DEFAULT_MAX_TOKENS = 32_000
"""Written when a request says no length, which this dialect demands; every model since Claude 3.7 can do it."""

_SAME_NAME = ("model", "max_tokens", "temperature", "top_p", "stream")
_READ = (*_SAME_NAME, "messages", "system", "tools", "tool_choice", "stop_sequences")
_DEFAULTS: dict[str, tuple[Any, ...]] = {"thinking": ({"type": "disabled"},)}
_TOOL_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "defer_loading": (False,),
    "allowed_callers": (["direct"],),
    "eager_input_streaming": (False, True),  # how large the pieces of a stream are changes no answer
}
_MODES: dict[str, Literal["auto", "none", "any", "one"]] = {"auto": "auto", "none": "none", "any": "any", "tool": "one"}
_WORDS = {mode: word for word, mode in _MODES.items()}


def read_request(payload: Payload) -> Request:
    """The request in neutral words. Raises Untranslatable."""
    refuse_unread(payload, _READ, defaults=_DEFAULTS)
    items: list[Item] = []
    if system := payload.get("system"):
        items.extend(read_blocks("system", system, "system"))
    for message, where in tables(payload.get("messages"), "messages"):
        refuse_unread(message, ("role", "content"), where)
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            raise Untranslatable(f"{where}.role", f"there is no role {role!r}")
        items.extend(read_blocks(role, message.get("content"), f"{where}.content"))
    tools = payload.get("tools")
    choice, parallel = _read_choice(payload.get("tool_choice"))
    return Request(
        model=payload.get("model"),
        max_tokens=payload.get("max_tokens"),
        temperature=payload.get("temperature"),
        top_p=payload.get("top_p"),
        stream=payload.get("stream"),
        items=tuple(items),
        tools=None if tools is None else tuple(_read_tool(*found) for found in tables(tools, "tools")),
        choice=choice,
        parallel=parallel,
        stop=payload.get("stop_sequences"),
    )


def _read_tool(tool: Payload, where: str) -> Tool:
    if tool.get("type") not in (None, "custom"):
        raise Untranslatable(f"{where}.type", "only tools that the agent runs itself can be")
    refuse_unread(tool, ("type", "name", "description", "input_schema", "strict"), where, _TOOL_DEFAULTS)
    schema = need_table(tool.get("input_schema"), f"{where}.input_schema")
    name = need_text(tool.get("name"), f"{where}.name")
    return Tool(name, tool.get("description"), schema, tool.get("strict") or False)


def _read_choice(value: Any) -> tuple[ToolChoice | None, bool | None]:
    if value is None:
        return None, None
    choice = need_table(value, "tool_choice")
    refuse_unread(choice, ("type", "name", "disable_parallel_tool_use"), "tool_choice")
    mode = _MODES.get(str(choice.get("type")))
    if mode is None:
        raise Untranslatable("tool_choice.type", f"there is no choice {choice.get('type')!r}")
    single = choice.get("disable_parallel_tool_use")
    name = need_text(choice.get("name"), "tool_choice.name") if mode == "one" else None
    return ToolChoice(mode, name), None if single is None else not single


def write_request(request: Request) -> Payload:
    """The request in this dialect. Raises Untranslatable.

    Neighbouring messages of one side become one message, as this dialect wants it. `developer` is written as `system`.
    """
    for name in ("seed", "format", "effort", "verbosity"):
        if getattr(request, name) not in (None, "medium" if name == "verbosity" else None):
            raise Untranslatable(name)
    if isinstance(request.temperature, int | float) and request.temperature > 1:
        raise Untranslatable("temperature", "Anthropic's goes up to 1 only")
    system, items = _split_system(request.items)
    tools = request.tools
    return {
        "model": request.model,
        **without_none(system=system),
        "messages": _write_messages(items),
        "max_tokens": DEFAULT_MAX_TOKENS if request.max_tokens is None else request.max_tokens,
        **without_none(
            tools=None if tools is None else [_write_tool(tool) for tool in tools],
            tool_choice=_write_choice(request),
            temperature=request.temperature,
            top_p=request.top_p,
            stop_sequences=request.stop,
            stream=request.stream,
        ),
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


def _is_system(item: Item) -> bool:
    return isinstance(item, Said) and item.role in ("system", "developer")


def _split_system(items: tuple[Item, ...]) -> tuple[str | list[Payload] | None, tuple[Item, ...]]:
    count = next((i for i, item in enumerate(items) if not _is_system(item)), len(items))
    if not count:
        return None, items
    parts: Parts = tuple(part for item in items[:count] if isinstance(item, Said) for part in item.parts)
    text = plain_text(parts)
    return (write_text_blocks(parts) if text is None else text), items[count:]


def _side(item: Item) -> str:
    if _is_system(item):
        return "system"
    return "user" if isinstance(item, Returned) or (isinstance(item, Said) and item.role == "user") else "assistant"


def _write_messages(items: tuple[Item, ...]) -> list[Payload]:
    messages: list[Payload] = []
    for side, group in groupby(items, key=_side):
        found = list(group)
        only = found[0] if len(found) == 1 else None
        if isinstance(only, Said) and (text := plain_text(only.parts)) is not None:
            messages.append({"role": side, "content": text})
        else:
            # Empty text says nothing, and this dialect refuses it in a block.
            messages.append({"role": side, "content": write_blocks(item for item in found if not _is_empty(item))})
    return messages


def _is_empty(item: Item) -> bool:
    return isinstance(item, Said) and item.parts == (Text(""),)
