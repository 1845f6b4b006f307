"""Requests of OpenAI's responses API, read into neutral words and written from them."""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import need_table, need_text, plain_text, refuse_unread, tables, without_none
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
    Tool,
    Untranslatable,
)

_SAME_NAME = ("model", "temperature", "top_p", "stream")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_READ = (*_SAME_NAME, *_TOOL_FIELDS, "input", "instructions", "max_output_tokens", "text", "reasoning")
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "background": (False,),
    # Reasoning to be handed back later: models of other dialects show theirs as it is, and it is handed back as it is.
    "include": ([], ["reasoning.encrypted_content"]),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
_CALL_KEYS = ("call_id", "name", "arguments")
_BOOKKEEPING = ("type", "id", "status")  # the provider's own names for its items, which mean nothing elsewhere


def read_request(payload: Payload) -> Request:
    """The request in neutral words. Raises Untranslatable."""
    refuse_unread(payload, _READ, defaults=_DEFAULTS)
    text = need_table(payload.get("text") or {}, "text")
    refuse_unread(text, ("format", "verbosity"), "text")
    reasoning = need_table(payload.get("reasoning") or {}, "reasoning")
    refuse_unread(reasoning, ("effort", "summary"), "reasoning")  # a wish to be shown more, which others do anyway
    shape = text.get("format")
    tools = payload.get("tools")
    return Request(
        model=payload.get("model"),
        temperature=payload.get("temperature"),
        top_p=payload.get("top_p"),
        stream=payload.get("stream"),
        items=tuple(_read_items(payload)),
        tools=None if tools is None else tuple(_read_tool(*found) for found in tables(tools, "tools")),
        choice=read_choice(payload.get("tool_choice"), None),
        parallel=payload.get("parallel_tool_calls"),
        max_tokens=payload.get("max_output_tokens"),
        format=None if shape is None or shape == {"type": "text"} else need_table(shape, "text.format"),
        effort=reasoning.get("effort"),
        verbosity=text.get("verbosity"),
    )


def _read_tool(tool: Payload, where: str) -> Tool:
    if tool.get("type") != "function":
        raise Untranslatable(f"{where}.type", "only tools of the type function can be")
    return read_tool(tool, where)


def _read_items(payload: Payload) -> list[Item]:
    items: list[Item] = []
    if instructions := payload.get("instructions"):
        items.append(Said("system", (Text(need_text(instructions, "instructions")),)))
    given = payload.get("input")
    if isinstance(given, str):
        return [*items, Said("user", (Text(given),))]
    for found in tables(given, "input"):
        items.extend(read_item(*found))
    return items


def read_item(item: Payload, where: str) -> list[Item]:
    """One item of an input or an output. Raises Untranslatable."""
    kind = item.get("type", "message")
    if kind == "message":
        return _read_message(item, where)
    if kind == "function_call":
        refuse_unread(item, (*_BOOKKEEPING, "call_id", "name", "arguments"), where)
        call_id, name, arguments = (need_text(item.get(key), f"{where}.{key}") for key in _CALL_KEYS)
        return [Called(call_id, name, arguments)]
    if kind == "function_call_output":
        refuse_unread(item, (*_BOOKKEEPING, "call_id", "output"), where)
        output = _read_parts(item.get("output"), f"{where}.output")
        return [Returned(need_text(item.get("call_id"), f"{where}.call_id"), output)]
    if kind == "reasoning":
        refuse_unread(item, (*_BOOKKEEPING, "summary", "content"), where)
        parts = [*tables(item.get("content"), f"{where}.content"), *tables(item.get("summary"), f"{where}.summary")]
        return [Reasoned("".join(need_text(part.get("text"), f"{place}.text") for part, place in parts))]
    raise Untranslatable(f"{where}.type", f"there is no place for items of the type {kind!r}")


def _read_message(item: Payload, where: str) -> list[Item]:
    refuse_unread(item, (*_BOOKKEEPING, "role", "content", "phase"), where)
    role = item.get("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise Untranslatable(f"{where}.role", f"there is no role {role!r}")
    content = item.get("content")
    refusals: list[Item] = []
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "refusal"]
        refusals = [Refused(need_text(part.get("refusal"), f"{where}.refusal")) for part in parts]
        content = [part for part in content if part not in parts]
    if refusals and not content:
        return refusals
    return [Said(role, _read_parts(content, f"{where}.content")), *refusals]


def _read_parts(content: Any, where: str) -> Parts:
    if content is None or isinstance(content, str):
        return (Text(content or ""),)
    return tuple(_read_part(*found) for found in tables(content, where))


def _read_part(part: Payload, where: str) -> Text | ImagePart:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        refuse_unread(part, ("type", "text"), where, {"annotations": ([],), "logprobs": ([],)})
        return Text(need_text(part.get("text"), f"{where}.text"))
    if kind == "input_image":
        refuse_unread(part, ("type", "image_url", "detail"), where)
        return ImagePart(need_text(part.get("image_url"), f"{where}.image_url"), part.get("detail"))
    raise Untranslatable(f"{where}.type", f"content of the type {kind!r} is neither text nor an image")


def write_request(request: Request) -> Payload:
    """The request in this dialect. Raises Untranslatable.

    The provider is asked not to store it: that is a default of this dialect only.
    """
    for name in ("stop", "seed"):
        if getattr(request, name) is not None:
            raise Untranslatable(name)
    instructions, items = _split_instructions(request.items)
    tools = request.tools
    return {
        "model": request.model,
        **without_none(instructions=instructions),
        "input": [write_item(item, index) for index, item in enumerate(items)],
        "store": False,
        **without_none(
            tools=None if tools is None else [_write_tool(tool) for tool in tools],
            tool_choice=write_choice(request.choice, None),
            parallel_tool_calls=request.parallel,
            max_output_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            text=without_none(format=request.format, verbosity=request.verbosity) or None,
            reasoning=without_none(effort=request.effort) or None,
            stream=request.stream,
        ),
    }


def _write_tool(tool: Tool) -> Payload:
    """A function; strictness is always said, because its default is the opposite of the one of chat completions."""
    described = {"type": "function", **write_tool(tool), "strict": tool.strict}
    return {**described, "parameters": tool.schema}


def _split_instructions(items: tuple[Item, ...]) -> tuple[str | None, tuple[Item, ...]]:
    first = items[0] if items else None
    if isinstance(first, Said) and first.role == "system" and (text := plain_text(first.parts)):
        return text, items[1:]
    return None, items


def write_item(item: Item, index: int) -> Payload:
    """One item of an input; `index` makes up the id that reasoning must have."""
    if isinstance(item, Called):
        return {"type": "function_call", "call_id": item.id, "name": item.name, "arguments": item.arguments}
    if isinstance(item, Returned):
        return {"type": "function_call_output", "call_id": item.id, "output": _write_parts(item.parts, "input_text")}
    if isinstance(item, Reasoned):
        content = [{"type": "reasoning_text", "text": item.text}]
        return {"type": "reasoning", "id": f"rs_{index}", "summary": [], "content": content}
    if isinstance(item, Refused):
        refusal = {"type": "refusal", "refusal": item.text}
        return {"type": "message", "role": "assistant", "content": [refusal]}
    kind = "output_text" if item.role == "assistant" else "input_text"
    return {"type": "message", "role": item.role, "content": _write_parts(item.parts, kind)}


def _write_parts(parts: Parts, kind: str) -> str | list[Payload]:
    if (text := plain_text(parts)) is not None:
        return text
    extra: Payload = {"annotations": []} if kind == "output_text" else {}
    return [
        {"type": kind, "text": part.text, **extra}
        if isinstance(part, Text)
        else {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}
        for part in parts
    ]
