"""Requests of Anthropic's messages API, read into neutral words and written from them."""

from itertools import groupby
from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.anthropic_blocks import read_blocks, write_blocks, write_text_blocks
from seatrial.gateway.neutral.anthropic_settings import SETTINGS, read_settings, write_settings
from seatrial.gateway.neutral.checks import leave_unread, need_table, need_text, plain_text, tables, without_none
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.tool_offer import PROVIDER_RUN, Offer
from seatrial.gateway.neutral.types import (
    Item,
    Parts,
    Reasoned,
    Request,
    Returned,
    Said,
    Text,
    Tool,
    ToolChoice,
    Untranslatable,
)

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
    """The request in neutral words. Raises Untranslatable."""
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
    system, items = _split_system(_with_own_thoughts(request.items, losses), losses)
    tools = request.tools
    return {
        "model": request.model,
        **without_none(system=system),
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


def _is_system(item: Item) -> bool:
    return isinstance(item, Said) and item.role in ("system", "developer")


def _split_system(items: tuple[Item, ...], losses: Losses) -> tuple[str | list[Payload] | None, tuple[Item, ...]]:
    count = next((i for i, item in enumerate(items) if not _is_system(item)), len(items))
    if not count:
        return None, items
    parts: Parts = tuple(part for item in items[:count] if isinstance(item, Said) for part in item.parts)
    text = plain_text(parts)
    return (write_text_blocks(parts, losses) if text is None else text), items[count:]


def _side(item: Item) -> str:
    if _is_system(item):
        return "system"
    return "user" if isinstance(item, Returned) or (isinstance(item, Said) and item.role == "user") else "assistant"


def _with_own_thoughts(items: tuple[Item, ...], losses: Losses) -> tuple[Item, ...]:
    """The items without thoughts that nobody has signed: Anthropic refuses those, and does without them."""
    if losses.strict:
        return items
    for item in items:
        if isinstance(item, Reasoned) and item.signature is None:
            losses.hint(f"{item.where} (reasoning)" if item.where.endswith("]") else item.where)
    return tuple(item for item in items if not isinstance(item, Reasoned) or item.signature is not None)


def _write_messages(items: tuple[Item, ...], losses: Losses) -> list[Payload]:
    messages: list[Payload] = []
    for side, group in groupby(items, key=_side):
        found = list(group)
        only = found[0] if len(found) == 1 else None
        if isinstance(only, Said) and (text := plain_text(only.parts)) is not None:
            messages.append({"role": side, "content": text})
        else:
            # Empty text says nothing, and this dialect refuses it in a block.
            said = (item for item in found if not _is_empty(item))
            messages.append({"role": side, "content": write_blocks(said, losses)})
    return messages


def _is_empty(item: Item) -> bool:
    return isinstance(item, Said) and item.parts == (Text(""),)
