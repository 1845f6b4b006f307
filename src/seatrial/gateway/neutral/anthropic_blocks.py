"""The blocks that Anthropic's messages are made of, and the neutral items that they stand for."""

import re
from collections.abc import Iterable
from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import text
from seatrial.gateway.neutral.checks import (
    arguments_said,
    arguments_text,
    leave_unread,
    need_table,
    need_text,
    plain_text,
    tables,
)
from seatrial.gateway.neutral.losses import Losses
from seatrial.gateway.neutral.types import (
    Called,
    ImagePart,
    Item,
    Parts,
    Reasoned,
    Refused,
    Returned,
    Said,
    Text,
    Untranslatable,
)

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+);base64,(.*)", re.DOTALL)
_FAILED = Text("Error: ")
"""Put before the output of a tool that failed: the others have no flag for it, and the model must see it."""


def read_blocks(role: Literal["system", "user", "assistant"], content: Any, where: str, losses: Losses) -> list[Item]:
    """The items of one message. Raises Untranslatable."""
    if isinstance(content, str):
        return [Said(role, (Text(content),))]
    items: list[Item] = []
    words: list[Text | ImagePart] = []
    for block, place in tables(content, where):
        if block.get("type") in ("text", "image"):
            words.append(_read_word(block, place, losses))
            continue
        if block.get("type") == "redacted_thinking":  # encrypted; only Anthropic can read it
            losses.leave_out(f"{place} (redacted_thinking)")
            continue
        if words:
            items.append(Said(role, tuple(words)))
            words = []
        items.append(_read_block(block, place, losses))
    if words or not items:
        items.append(Said(role, tuple(words)))
    return items


def _read_word(block: Payload, where: str, losses: Losses) -> Text | ImagePart:
    if block.get("type") == "text":
        leave_unread(block, ("type", "text"), losses, where, {"citations": ([],)})
        return Text(need_text(block.get("text"), f"{where}.text"))
    if block.get("type") != "image":
        raise Untranslatable(f"{where}.type", f"{block.get('type')!r} is neither text nor an image")
    leave_unread(block, ("type", "source"), losses, where)
    source = need_table(block.get("source"), f"{where}.source")
    if source.get("type") == "url":
        return ImagePart(need_text(source.get("url"), f"{where}.source.url"), where=where)
    if source.get("type") == "base64":
        kind, data = (need_text(source.get(name), f"{where}.source.{name}") for name in ("media_type", "data"))
        return ImagePart(f"data:{kind};base64,{data}", where=where)
    raise Untranslatable(f"{where}.source.type", "an image has to be base64 or a URL")


def _read_block(block: Payload, where: str, losses: Losses) -> Item:
    kind = block.get("type")
    if kind == "tool_use":
        leave_unread(block, ("type", "id", "name", "input"), losses, where, {"caller": ({"type": "direct"},)})
        given = need_table(block.get("input"), f"{where}.input")
        call_id, name = (need_text(block.get(field), f"{where}.{field}") for field in ("id", "name"))
        return Called(call_id, name, arguments_text(given, f"{where}.input"))
    if kind == "tool_result":
        return _read_result(block, where, losses)
    if kind == "thinking":
        leave_unread(block, ("type", "thinking", "signature"), losses, where)
        thought = need_text(block.get("thinking"), f"{where}.thinking")
        return Reasoned(thought, text(block.get("signature")) or None, where)
    raise Untranslatable(f"{where}.type", f"there is no place for blocks of the type {kind!r}")


def _read_result(block: Payload, where: str, losses: Losses) -> Returned:
    leave_unread(block, ("type", "tool_use_id", "content", "is_error"), losses, where)
    content = block.get("content")
    parts: Parts = (Text(content or ""),) if content is None or isinstance(content, str) else ()
    if isinstance(content, list):
        parts = tuple(_read_output(*found, losses) for found in tables(content, f"{where}.content"))
    if block.get("is_error"):
        words = plain_text(parts)
        parts = (_FAILED, *parts) if words is None else (Text(_FAILED.text + words),)
    return Returned(need_text(block.get("tool_use_id"), f"{where}.tool_use_id"), parts)


def _read_output(block: Payload, where: str, losses: Losses) -> Text | ImagePart:
    if block.get("type") == "tool_reference" and not losses.strict:
        # A tool that the agent's own search for tools has found; see `anthropic_requests` for what follows from it.
        return Text(f"The tool {need_text(block.get('tool_name'), f'{where}.tool_name')} can be used now.")
    return _read_word(block, where, losses)


def write_blocks(items: Iterable[Item], losses: Losses) -> list[Payload]:
    """The blocks of one message. Raises Untranslatable."""
    return [block for item in items for block in _write_item(item, losses)]


def _write_item(item: Item, losses: Losses) -> list[Payload]:
    if isinstance(item, Said):
        return [_write_word(part, losses) for part in item.parts]
    if isinstance(item, Called):
        given = arguments_said(item.arguments, f"arguments of {item.name}", losses)
        return [{"type": "tool_use", "id": item.id, "name": item.name, "input": given}]
    if isinstance(item, Returned):
        words = plain_text(item.parts)
        content = [_write_word(part, losses) for part in item.parts] if words is None else words
        return [{"type": "tool_result", "tool_use_id": item.id, "content": content}]
    if isinstance(item, Refused):
        if losses.strict:
            raise Untranslatable("refusal")
        return [{"type": "text", "text": item.text}]
    return [{"type": "thinking", "thinking": item.text, "signature": item.signature or ""}]


def write_text_blocks(parts: Parts, losses: Losses) -> list[Payload]:
    """Blocks of text alone, as `system` wants them."""
    for part in parts:
        if isinstance(part, ImagePart):
            raise Untranslatable(part.where or "image", "Anthropic takes images from users only")
    return [_write_word(part, losses) for part in parts]


def _write_word(part: Text | ImagePart, losses: Losses) -> Payload:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.detail not in (None, "auto"):
        losses.leave_out(f"{part.where or 'image'}.detail")
    if not part.url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    found = _DATA_URL.fullmatch(part.url)
    if not found:
        raise Untranslatable(part.where or "image", "a data URL has to be base64")
    return {"type": "image", "source": {"type": "base64", "media_type": found[1], "data": found[2]}}
