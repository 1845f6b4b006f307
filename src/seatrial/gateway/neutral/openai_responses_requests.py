"""Requests of OpenAI's responses API, read into neutral words and written from them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from seatrial.gateway.base import PLAIN_TOOLS, AgentTools, KnownAs
from seatrial.gateway.fields import Payload
from seatrial.gateway.neutral.checks import (
    PROVIDER_RUN,
    Offer,
    leave_unread,
    need_table,
    need_text,
    plain_text,
    read_freeform_call,
    read_freeform_tool,
    tables,
    without_none,
)
from seatrial.gateway.neutral.openai_chat_requests import (
    read_choice,
    read_tool,
    read_user,
    write_choice,
    write_effort,
    write_tool,
)
from seatrial.gateway.neutral.types import Losses, Request, Thinking, Tool, Untranslatable
from seatrial.messages import Item, Message, Parts, Picture, Reasoning, Refusal, ToolCall, ToolResult
from seatrial.untrusted.json import items, text

# Tools, which may stand in three places. Beside `tools` itself, Codex adds some by an item of the input, grouped in
# namespaces. Those of the usual namespace are called as if they were in none. Those of an MCP server have its namespace
# before their name, as other agents do it. Of others only this API knows how to call them.

ADDED_TOOLS = "additional_tools"
"""The type of an item of the input that holds tools."""

_USUAL_NAMESPACE = "functions"
_OF_SERVERS = "mcp__"
_LONGEST_NAME = 64  # that other dialects take


def read_offer(payload: Payload, losses: Losses) -> Offer:
    """The tools that the model is offered, wherever they stand. Raises Untranslatable."""
    given = list(_given(payload, losses))
    is_said = payload.get("tools") is not None or bool(given)
    found = [_read_tool(*each, losses) for each in given] if is_said else None
    choice = read_choice(payload.get("tool_choice"), None, losses)
    return Offer.of(found, losses, choice=choice, parallel=payload.get("parallel_tool_calls"))


def agent_tools(payload: Payload) -> AgentTools:
    """How the agent of a request knows its tools; as they are, where the request cannot be read."""
    try:
        return as_agents_know(read_offer(payload, Losses("lenient")).tools)
    except Untranslatable:
        return PLAIN_TOOLS


def as_agents_know(tools: Iterable[Tool] | None) -> AgentTools:
    """Tools as the agent knows them that offers them."""
    known = {tool.name: _known_as(tool) for tool in tools or () if tool.freeform or tool.namespace}
    return AgentTools(known) if known else PLAIN_TOOLS


def _known_as(tool: Tool) -> KnownAs:
    prefix = f"{tool.namespace}__" if tool.namespace else ""
    return KnownAs(tool.name.removeprefix(prefix), tool.namespace, tool.freeform)


def whole_name(namespace: Any, name: str) -> str:
    return f"{namespace}__{name}" if isinstance(namespace, str) and namespace.startswith(_OF_SERVERS) else name


def _given(payload: Payload, losses: Losses) -> Iterator[tuple[Payload, str, str | None]]:
    yield from _flat(tables(payload.get("tools"), "tools"), losses)
    for index, item in enumerate(items(payload.get("input"))):
        if isinstance(item, dict) and item.get("type") == ADDED_TOOLS and not losses.strict:
            yield from _flat(tables(item.get("tools"), f"input[{index}].tools"), losses)


def _flat(found: list[tuple[Payload, str]], losses: Losses) -> Iterator[tuple[Payload, str, str | None]]:
    """Tools with the namespace that is to stand before their name."""
    for tool, where in found:
        name = (text(tool.get("name")) or "") if tool.get("type") == "namespace" else ""
        of_server = name.startswith(_OF_SERVERS)
        if losses.strict or not (of_server or name == _USUAL_NAMESPACE):
            yield tool, where, None
            continue
        for inner, place in tables(tool.get("tools"), f"{where}.tools"):
            yield inner, place, name if of_server else None


def _read_tool(tool: Payload, where: str, namespace: str | None, losses: Losses) -> Tool | None:
    found = _read_bare_tool(tool, where, losses)
    if found is None or namespace is None:
        return found
    name = whole_name(namespace, found.name)
    if len(name) > _LONGEST_NAME:
        losses.leave_out(f"{where} ({name})", f"a name has {_LONGEST_NAME} characters at most")
        return None
    return replace(found, name=name, namespace=namespace)


def _read_bare_tool(tool: Payload, where: str, losses: Losses) -> Tool | None:
    kind = tool.get("type")
    if kind == "function":
        return read_tool(tool, where, losses)
    if kind == "custom" and not losses.strict:
        return read_freeform_tool(tool, where, losses)
    named = f" {tool.get('name')}" if kind == "namespace" else ""
    losses.leave_out(f"{where} ({kind}{named})", PROVIDER_RUN)
    return None


# Whole requests.

NAMES = {
    "choice": "tool_choice",
    "effort": "reasoning.effort",
    "format": "text.format",
    "max_tokens": "max_output_tokens",
    "parallel": "parallel_tool_calls",
    "signature": "encrypted_content",
    "thinking": "reasoning.summary",
    "verbosity": "text.verbosity",
}
"""How this dialect calls the fields of a Request that have another name there."""

_SAME_NAME = ("model", "temperature", "top_p", "stream")
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_READ = (*_SAME_NAME, *_TOOL_FIELDS, "input", "instructions", "max_output_tokens", "text", "reasoning", "user")
_BY_REFERENCE = ("previous_response_id", "conversation", "prompt")
_SIGNATURES = "reasoning.encrypted_content"
_DEFAULTS: dict[str, tuple[Any, ...]] = {
    "background": (False,),
    # Reasoning to be handed back later: models of other dialects show theirs as it is, and it is handed back as it is.
    "include": ([], [_SIGNATURES]),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
_CALL_KEYS = ("call_id", "name", "arguments")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_BOOKKEEPING = ("type", "id", "status")  # the provider's own names for its items, which mean nothing elsewhere


def read_request(payload: Payload, losses: Losses) -> Request:
    for name in _BY_REFERENCE:
        if payload.get(name) is not None:
            raise Untranslatable(name, "it stands for messages that only their provider has; send the messages")
    leave_unread(payload, _READ, losses, defaults=_DEFAULTS)
    text = need_table(payload.get("text") or {}, "text")
    leave_unread(text, ("format", "verbosity"), losses, "text")
    reasoning = need_table(payload.get("reasoning") or {}, "reasoning")
    leave_unread(reasoning, ("effort", "summary"), losses, "reasoning")
    shape = text.get("format")
    offer = read_offer(payload, losses)
    return Request(
        model=payload.get("model"),
        temperature=payload.get("temperature"),
        top_p=payload.get("top_p"),
        stream=payload.get("stream"),
        items=tuple(_read_items(payload, losses)),
        tools=offer.tools,
        choice=offer.choice,
        parallel=offer.parallel,
        max_tokens=payload.get("max_output_tokens"),
        format=None if shape is None or shape == {"type": "text"} else need_table(shape, "text.format"),
        effort=reasoning.get("effort"),
        thinking=None if reasoning.get("summary") is None else Thinking(shown=True),
        verbosity=text.get("verbosity"),
        user=read_user(payload.get("user"), losses),
        agent_tools=as_agents_know(offer.tools),
    )


def _read_items(payload: Payload, losses: Losses) -> list[Item]:
    items: list[Item] = []
    if instructions := payload.get("instructions"):
        items.append(Message("system", (need_text(instructions, "instructions"),)))
    given = payload.get("input")
    if isinstance(given, str):
        return [*items, Message("user", (given,))]
    for found in tables(given, "input"):
        items.extend(_read_item(*found, losses))
    return items


def _read_item(item: Payload, where: str, losses: Losses) -> list[Item]:
    kind = item.get("type", "message")
    if kind == "message":
        return _read_message(item, where, losses)
    if kind == "function_call":
        leave_unread(item, (*_BOOKKEEPING, *_CALL_KEYS, "namespace"), losses, where)
        call_id, name, arguments = (need_text(item.get(key), f"{where}.{key}") for key in _CALL_KEYS)
        return [ToolCall(call_id, whole_name(item.get("namespace"), name), arguments)]
    if kind == ADDED_TOOLS and not losses.strict:
        return []
    if kind == "custom_tool_call" and not losses.strict:
        leave_unread(item, (*_BOOKKEEPING, "call_id", "name", "input"), losses, where)
        return [read_freeform_call(item, where)]
    if kind in _OUTPUTS[: 1 if losses.strict else None]:
        leave_unread(item, (*_BOOKKEEPING, "call_id", "output"), losses, where)
        output = _read_parts(item.get("output"), f"{where}.output", losses)
        return [ToolResult(need_text(item.get("call_id"), f"{where}.call_id"), output)]
    if kind == "reasoning":
        return [_read_thought(item, where, losses)]
    raise Untranslatable(f"{where}.type", f"there is no place for items of the type {kind!r}")


def _read_thought(item: Payload, where: str, losses: Losses) -> Reasoning:
    leave_unread(item, (*_BOOKKEEPING, "summary", "content", "encrypted_content"), losses, where)
    parts = [*tables(item.get("content"), f"{where}.content"), *tables(item.get("summary"), f"{where}.summary")]
    thought = "".join(need_text(part.get("text"), f"{place}.text") for part, place in parts)
    signature = item.get("encrypted_content")
    return Reasoning(thought, need_text(signature, f"{where}.encrypted_content") if signature else None, where)


def _read_message(item: Payload, where: str, losses: Losses) -> list[Item]:
    leave_unread(item, (*_BOOKKEEPING, "role", "content", "phase"), losses, where)
    role = item.get("role")
    if role not in ("system", "developer", "user", "assistant"):
        raise Untranslatable(f"{where}.role", f"there is no role {role!r}")
    content = item.get("content")
    refusals: list[Item] = []
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "refusal"]
        refusals = [Refusal(need_text(part.get("refusal"), f"{where}.refusal")) for part in parts]
        content = [part for part in content if part not in parts]
    if refusals and not content:
        return refusals
    return [Message(role, _read_parts(content, f"{where}.content", losses)), *refusals]


def _read_parts(content: Any, where: str, losses: Losses) -> Parts:
    if content is None or isinstance(content, str):
        return (content or "",)
    return tuple(_read_part(*found, losses) for found in tables(content, where))


def _read_part(part: Payload, where: str, losses: Losses) -> str | Picture:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        leave_unread(part, ("type", "text"), losses, where, {"annotations": ([],), "logprobs": ([],)})
        return need_text(part.get("text"), f"{where}.text")
    if kind == "input_image":
        leave_unread(part, ("type", "image_url", "detail"), losses, where)
        return Picture(need_text(part.get("image_url"), f"{where}.image_url"), part.get("detail"), where=where)
    raise Untranslatable(f"{where}.type", f"content of the type {kind!r} is neither text nor an image")


def write_request(request: Request, losses: Losses) -> Payload:
    """The request in this dialect. Raises Untranslatable.

    The provider is asked not to store it: that is a default of this dialect only.
    """
    for name in ("stop", "seed"):
        if getattr(request, name) is not None:
            losses.no_place(name)
    instructions, items = _split_instructions(request.items)
    tools = request.tools
    return {
        "model": request.model,
        **without_none(instructions=instructions),
        "input": [_write_item(item, index) for index, item in enumerate(items)],
        "store": False,
        **without_none(
            tools=None if tools is None else [_write_tool(tool) for tool in tools],
            tool_choice=write_choice(request.choice, None),
            parallel_tool_calls=request.parallel,
            max_output_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            text=without_none(format=request.format, verbosity=request.verbosity) or None,
            user=request.user,
            stream=request.stream,
        ),
        **_write_reasoning(request, losses),
    }


def _write_reasoning(request: Request, losses: Losses) -> Payload:
    thinking = request.thinking or Thinking()
    summary = "auto" if thinking.shown else None
    reasoning = without_none(effort=write_effort(request, losses), summary=summary)
    # A thought without its signature is of no use to this provider when it is handed back.
    signed = {"include": [_SIGNATURES]} if thinking.on else {}
    return {**({"reasoning": reasoning} if reasoning else {}), **signed}


def _write_tool(tool: Tool) -> Payload:
    """A function; strictness is always said, because its default is the opposite of the one of chat completions."""
    described = {"type": "function", **write_tool(tool), "strict": tool.strict}
    return {**described, "parameters": tool.schema}


def _split_instructions(items: tuple[Item, ...]) -> tuple[str | None, tuple[Item, ...]]:
    first = items[0] if items else None
    if isinstance(first, Message) and first.role == "system" and (text := plain_text(first.parts)):
        return text, items[1:]
    return None, items


def _write_item(item: Item, index: int) -> Payload:
    """One item of an input; `index` makes up the id that reasoning must have, unless it is told apart otherwise."""
    if isinstance(item, ToolCall):
        return {"type": "function_call", "call_id": item.id, "name": item.name, "arguments": item.arguments}
    if isinstance(item, ToolResult):
        return {"type": "function_call_output", "call_id": item.id, "output": _write_parts(item.parts, "input_text")}
    if isinstance(item, Reasoning):
        if item.signature is not None:
            known_as, _, encrypted = item.signature.rpartition(" ")  # as `signature_of` has put them together
            summary = [{"type": "summary_text", "text": item.text}] if item.text else []
            named = without_none(id=known_as or None)
            return {"type": "reasoning", **named, "summary": summary, "encrypted_content": encrypted}
        content = [{"type": "reasoning_text", "text": item.text}]
        return {"type": "reasoning", "id": f"rs_{index}", "summary": [], "content": content}
    if isinstance(item, Refusal):
        refusal = {"type": "refusal", "refusal": item.text}
        return {"type": "message", "role": "assistant", "content": [refusal]}
    kind = "output_text" if item.role == "assistant" else "input_text"
    return {"type": "message", "role": item.role, "content": _write_parts(item.parts, kind)}


def _write_parts(parts: Parts, kind: str) -> str | list[Payload]:
    if (text := plain_text(parts)) is not None:
        return text
    extra: Payload = {"annotations": []} if kind == "output_text" else {}
    return [
        {"type": kind, "text": part, **extra}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": part.url, "detail": part.detail or "auto"}
        for part in parts
    ]
