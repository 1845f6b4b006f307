"""The blocks that Anthropic's messages are made of, and the neutral items that they stand for."""

import re
from collections.abc import Iterable
from typing import Any, Literal

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import (
    arguments_object,
    arguments_text,
    need_table,
    need_text,
    plain_text,
    refuse_unread,
    tables,
)
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


def read_blocks(role: Literal["system", "user", "assistant"], content: Any, where: str) -> list[Item]:
    """The items of one message. Raises Untranslatable."""
    if isinstance(content, str):
        return [Said(role, (Text(content),))]
    items: list[Item] = []
    words: list[Text | ImagePart] = []
    for block, place in tables(content, where):
        if block.get("type") in ("text", "image"):
            words.append(_read_word(block, place))
            continue
        if words:
            items.append(Said(role, tuple(words)))
            words = []
        items.append(_read_block(block, place))
    if words or not items:
        items.append(Said(role, tuple(words)))
    return items


def _read_word(block: Payload, where: str) -> Text | ImagePart:
    if block.get("type") == "text":
        refuse_unread(block, ("type", "text"), where, {"citations": ([],)})
        return Text(need_text(block.get("text"), f"{where}.text"))
    refuse_unread(block, ("type", "source"), where)
    source = need_table(block.get("source"), f"{where}.source")
    if source.get("type") == "url":
        return ImagePart(need_text(source.get("url"), f"{where}.source.url"))
    if source.get("type") == "base64":
        kind, data = (need_text(source.get(name), f"{where}.source.{name}") for name in ("media_type", "data"))
        return ImagePart(f"data:{kind};base64,{data}")
    raise Untranslatable(f"{where}.source.type", "an image has to be base64 or a URL")


def _read_block(block: Payload, where: str) -> Item:
    kind = block.get("type")
    if kind == "tool_use":
        refuse_unread(block, ("type", "id", "name", "input"), where, {"caller": ({"type": "direct"},)})
        given = need_table(block.get("input"), f"{where}.input")
        call_id, name = (need_text(block.get(field), f"{where}.{field}") for field in ("id", "name"))
        return Called(call_id, name, arguments_text(given, f"{where}.input"))
    if kind == "tool_result":
        return _read_result(block, where)
    if kind == "thinking":
        refuse_unread(block, ("type", "thinking"), where, {"signature": ("",)})
        return Reasoned(need_text(block.get("thinking"), f"{where}.thinking"))
    raise Untranslatable(f"{where}.type", f"there is no place for blocks of the type {kind!r}")


def _read_result(block: Payload, where: str) -> Returned:
    refuse_unread(block, ("type", "tool_use_id", "content", "is_error"), where)
    content = block.get("content")
    parts: Parts = (Text(content or ""),) if content is None or isinstance(content, str) else ()
    if isinstance(content, list):
        parts = tuple(_read_word(*found) for found in tables(content, f"{where}.content"))
    if block.get("is_error"):
        text = plain_text(parts)
        parts = (_FAILED, *parts) if text is None else (Text(_FAILED.text + text),)
    return Returned(need_text(block.get("tool_use_id"), f"{where}.tool_use_id"), parts)


def write_blocks(items: Iterable[Item]) -> list[Payload]:
    """The blocks of one message. Raises Untranslatable."""
    return [block for item in items for block in _write_item(item)]


def _write_item(item: Item) -> list[Payload]:
    if isinstance(item, Said):
        return [_write_word(part) for part in item.parts]
    if isinstance(item, Called):
        given = arguments_object(item.arguments, f"arguments of {item.name}")
        return [{"type": "tool_use", "id": item.id, "name": item.name, "input": given}]
    if isinstance(item, Returned):
        text = plain_text(item.parts)
        content = [_write_word(part) for part in item.parts] if text is None else text
        return [{"type": "tool_result", "tool_use_id": item.id, "content": content}]
    if isinstance(item, Refused):
        raise Untranslatable("refusal")
    return [{"type": "thinking", "thinking": item.text, "signature": ""}]


def write_text_blocks(parts: Parts) -> list[Payload]:
    """Blocks of text alone, as `system` wants them."""
    if any(isinstance(part, ImagePart) for part in parts):
        raise Untranslatable("image", "Anthropic takes images from users only")
    return [_write_word(part) for part in parts]


def _write_word(part: Text | ImagePart) -> Payload:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.detail not in (None, "auto"):
        raise Untranslatable("image.detail")
    if not part.url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    found = _DATA_URL.fullmatch(part.url)
    if not found:
        raise Untranslatable("image.url", "a data URL has to be base64")
    return {"type": "image", "source": {"type": "base64", "media_type": found[1], "data": found[2]}}
