"""The conversation of a request as messages of OpenAI's chat completions."""

from collections.abc import Iterator

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import plain_text, without_none
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

_PICTURES_BELOW = "The pictures are in the next message."


def write_messages(items: tuple[Item, ...], losses: Losses) -> list[Payload]:
    """The conversation as messages. Raises Untranslatable.

    A tool's output has no pictures here: a message of the user, after all outputs of the turn, shows them instead.
    """
    messages: list[Payload] = []
    speaking: Payload | None = None  # the assistant's message that may still grow
    shown: list[Payload] = []
    for item in _without_signatures(items, losses):
        if shown and not isinstance(item, Returned):
            messages.append({"role": "user", "content": shown})
            shown = []
        if isinstance(item, Called | Reasoned | Refused) or (isinstance(item, Said) and item.role == "assistant"):
            if speaking is None or not _fits(speaking, item, losses):
                speaking = {"role": "assistant", "content": None}
                messages.append(speaking)
            _extend(speaking, item)
            continue
        speaking = None
        if isinstance(item, Returned):
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
        if isinstance(item, Reasoned) and item.signature is not None:
            losses.leave_out(f"{item.where}.{losses.name_of('signature')}")
        if not isinstance(item, Reasoned) or item.text or item.signature is None:
            yield item


def _split_pictures(output: Returned) -> tuple[Parts, list[Payload]]:
    pictures = tuple(part for part in output.parts if isinstance(part, ImagePart))
    if not pictures:
        return output.parts, []
    words = tuple(part for part in output.parts if isinstance(part, Text))
    title = {"type": "text", "text": f"Pictures that the tool call {output.id} gave back:"}
    return words or (Text(_PICTURES_BELOW),), [title, *(_write_image(part) for part in pictures)]


def _fits(message: Payload, item: Item, losses: Losses) -> bool:
    if isinstance(item, Called):
        return True
    if "tool_calls" in message:
        if losses.strict:
            raise Untranslatable("content", "in chat completions, what the model says cannot come after its tool calls")
        return True
    return message["content"] is None and "refusal" not in message and not isinstance(item, Reasoned)


def _extend(message: Payload, item: Item) -> None:
    if isinstance(item, Said):
        message["content"] = _joined(message["content"], _write_parts(item.parts, images="refused"))
    elif isinstance(item, Reasoned):
        message["reasoning_content"] = message.get("reasoning_content", "") + item.text
    elif isinstance(item, Refused):
        message["refusal"] = message.get("refusal", "") + item.text
    elif isinstance(item, Called):
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
        if isinstance(part, Text):
            written.append({"type": "text", "text": part.text})
        elif images == "refused":
            raise Untranslatable(part.where or "image", "chat completions take images from users only")
        else:
            written.append(_write_image(part))
    return written


def _write_image(part: ImagePart) -> Payload:
    return {"type": "image_url", "image_url": {"url": part.url, **without_none(detail=part.detail)}}
