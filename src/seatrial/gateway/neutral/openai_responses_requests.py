"""Requests of OpenAI's responses API, read into neutral words and written from them."""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import leave_unread, need_table, need_text, plain_text, tables, without_none
from seatrial.gateway.neutral.freeform import read_freeform_call
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.openai_responses_tools import ADDED_TOOLS, as_agents_know, read_offer, whole_name
from seatrial.gateway.neutral.openai_tools import (
    read_user,
    write_choice,
    write_effort,
    write_tool,
)
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
    Thinking,
    Tool,
    Untranslatable,
)

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
    """The request in neutral words. Raises Untranslatable."""
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
        items.append(Said("system", (Text(need_text(instructions, "instructions")),)))
    given = payload.get("input")
    if isinstance(given, str):
        return [*items, Said("user", (Text(given),))]
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
        return [Called(call_id, whole_name(item.get("namespace"), name), arguments)]
    if kind == ADDED_TOOLS and not losses.strict:
        return []
    if kind == "custom_tool_call" and not losses.strict:
        leave_unread(item, (*_BOOKKEEPING, "call_id", "name", "input"), losses, where)
        return [read_freeform_call(item, where)]
    if kind in _OUTPUTS[: 1 if losses.strict else None]:
        leave_unread(item, (*_BOOKKEEPING, "call_id", "output"), losses, where)
        output = _read_parts(item.get("output"), f"{where}.output", losses)
        return [Returned(need_text(item.get("call_id"), f"{where}.call_id"), output)]
    if kind == "reasoning":
        return [_read_thought(item, where, losses)]
    raise Untranslatable(f"{where}.type", f"there is no place for items of the type {kind!r}")


def _read_thought(item: Payload, where: str, losses: Losses) -> Reasoned:
    leave_unread(item, (*_BOOKKEEPING, "summary", "content", "encrypted_content"), losses, where)
    parts = [*tables(item.get("content"), f"{where}.content"), *tables(item.get("summary"), f"{where}.summary")]
    thought = "".join(need_text(part.get("text"), f"{place}.text") for part, place in parts)
    signature = item.get("encrypted_content")
    return Reasoned(thought, need_text(signature, f"{where}.encrypted_content") if signature else None, where)


def _read_message(item: Payload, where: str, losses: Losses) -> list[Item]:
    leave_unread(item, (*_BOOKKEEPING, "role", "content", "phase"), losses, where)
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
    return [Said(role, _read_parts(content, f"{where}.content", losses)), *refusals]


def _read_parts(content: Any, where: str, losses: Losses) -> Parts:
    if content is None or isinstance(content, str):
        return (Text(content or ""),)
    return tuple(_read_part(*found, losses) for found in tables(content, where))


def _read_part(part: Payload, where: str, losses: Losses) -> Text | ImagePart:
    kind = part.get("type")
    if kind in ("input_text", "output_text"):
        leave_unread(part, ("type", "text"), losses, where, {"annotations": ([],), "logprobs": ([],)})
        return Text(need_text(part.get("text"), f"{where}.text"))
    if kind == "input_image":
        leave_unread(part, ("type", "image_url", "detail"), losses, where)
        return ImagePart(need_text(part.get("image_url"), f"{where}.image_url"), part.get("detail"), where)
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
    if isinstance(first, Said) and first.role == "system" and (text := plain_text(first.parts)):
        return text, items[1:]
    return None, items


def _write_item(item: Item, index: int) -> Payload:
    """One item of an input; `index` makes up the id that reasoning must have, unless it is told apart otherwise."""
    if isinstance(item, Called):
        return {"type": "function_call", "call_id": item.id, "name": item.name, "arguments": item.arguments}
    if isinstance(item, Returned):
        return {"type": "function_call_output", "call_id": item.id, "output": _write_parts(item.parts, "input_text")}
    if isinstance(item, Reasoned):
        if item.signature is not None:
            known_as, _, encrypted = item.signature.rpartition(" ")  # as `signature_of` has put them together
            summary = [{"type": "summary_text", "text": item.text}] if item.text else []
            named = without_none(id=known_as or None)
            return {"type": "reasoning", **named, "summary": summary, "encrypted_content": encrypted}
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
