"""Requests of Google's generateContent, read into neutral words and written from them.

A payload of this dialect has `model` and `stream` in it, which its path says when it is sent.
"""

import re
from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.google_paths import is_model_name
from seatrial.gateway.neutral.checks import need_table, tables, without_none
from seatrial.gateway.neutral.google_config import read_config, write_config
from seatrial.gateway.neutral.google_fields import leave_out_unread, spelled
from seatrial.gateway.neutral.google_parts import PartsReader, write_parts
from seatrial.gateway.neutral.google_tools import read_choice, read_tools, write_choice, write_tools
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import Item, Request, Returned, Said, Untranslatable

NAMES = {
    "max_tokens": "generationConfig.maxOutputTokens",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "seed": "generationConfig.seed",
    "stop": "generationConfig.stopSequences",
    "format": "generationConfig.responseMimeType",
    "effort": "generationConfig.thinkingConfig.thinkingLevel",
    "thinking": "generationConfig.thinkingConfig",
    "choice": "toolConfig",
}
"""How this dialect calls the fields of a neutral Request, where it calls them otherwise."""

_READ = ("model", "stream", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
_HINTS = frozenset({"safetySettings", "labels", "serviceTier", "store"})
_ROLES: dict[Any, Literal["user", "assistant"]] = {
    "user": "user",
    "function": "user",
    "model": "assistant",
    None: "user",
}
_SIGNED = re.compile(r"(models/)?gemini-(?![12]\b)")
_NOBODYS_SIGNATURE = "skip_thought_signature_validator"
"""Later Gemini models refuse calls of theirs without a signature, and take this one for calls that are not theirs."""


def read_request(payload: Payload, losses: Losses) -> Request:
    """The request in neutral words. Raises Untranslatable."""
    fields = spelled(payload)
    for name in _HINTS & fields.keys():
        losses.hint(name)
    leave_out_unread(fields, (*_READ, *_HINTS), "", losses)
    tools = read_tools(fields.get("tools"), losses)
    return Request(
        model=fields.get("model"),
        stream=fields.get("stream"),
        items=tuple(_read_items(fields, losses)),
        tools=tools,
        choice=read_choice(fields.get("toolConfig"), losses) if tools else None,
        **read_config(fields.get("generationConfig"), losses),
    )


def _read_items(fields: Payload, losses: Losses) -> list[Item]:
    reader = PartsReader(losses)
    items: list[Item] = []
    if (system := fields.get("systemInstruction")) is not None:
        parts = system if isinstance(system, list) else need_table(system, "systemInstruction").get("parts")
        items.extend(reader.read("system", parts, "systemInstruction.parts"))
    contents = fields.get("contents")
    for content, where in tables([contents] if isinstance(contents, dict) else contents, "contents"):
        leave_out_unread(content, ("role", "parts"), where, losses)
        role = content.get("role")
        if not isinstance(role, str | None) or role not in _ROLES:
            raise Untranslatable(f"{where}.role", f"there is no role {role!r}")
        items.extend(reader.read(_ROLES[role], content.get("parts"), f"{where}.parts"))
    return items


def write_request(request: Request, losses: Losses) -> Payload:
    """The request in this dialect. Raises Untranslatable.

    What the model said and called without a break is one content, and so are the results of tools. System messages that
    come later than the first words of others are written as the user's, for there is no other place.
    """
    if not is_model_name(request.model):
        raise Untranslatable("model", "Google has it in a path: it has to be a name of letters, digits and . _ : @ -")
    for name, usual in (("parallel", True), ("verbosity", "medium")):
        if getattr(request, name) not in (None, usual):
            losses.no_place(name)
    system, items = _split_system(request.items, losses)
    contents = _write_contents(items, losses)
    if _SIGNED.match(str(request.model)):
        _sign_calls(contents)
    return {
        "model": request.model,
        **without_none(systemInstruction=system),
        "contents": contents,
        **without_none(
            tools=write_tools(request.tools, losses),
            toolConfig=write_choice(request.choice),
            generationConfig=write_config(request, losses),
            stream=request.stream,
        ),
    }


def _is_system(item: Item) -> bool:
    return isinstance(item, Said) and item.role in ("system", "developer")


def _split_system(items: tuple[Item, ...], losses: Losses) -> tuple[Payload | None, tuple[Item, ...]]:
    count = next((i for i, item in enumerate(items) if not _is_system(item)), len(items))
    parts = [part for item in items[:count] for part in write_parts(item, {}, losses)]
    return {"parts": parts} if parts else None, items[count:]


def _write_contents(items: tuple[Item, ...], losses: Losses) -> list[Payload]:
    contents: list[Payload] = []
    names: dict[str, str] = {}
    last = ""
    for item in items:
        kind = _kind(item)
        if kind != last or kind == "said":
            contents.append({"role": "model" if kind == "model" else "user", "parts": []})
        contents[-1]["parts"].extend(write_parts(item, names, losses))
        last = kind
    return contents


def _kind(item: Item) -> Literal["said", "returned", "model"]:
    if isinstance(item, Returned):
        return "returned"
    return "said" if isinstance(item, Said) and item.role != "assistant" else "model"


def _sign_calls(contents: list[Payload]) -> None:
    for content in contents:
        call = next((part for part in content["parts"] if "functionCall" in part), None)
        if call is not None:
            call["thoughtSignature"] = _NOBODYS_SIGNATURE
