"""Messages, read and joined by the functions that environments call for it."""

from collections.abc import Iterable, Sequence
from typing import Any

from seatrial.env.chat_message import AttributeTable
from seatrial.env.messages import Message, Messages, as_messages
from seatrial.env.response import Response, as_response

_PLACEHOLDERS = {"audio": "[audio]", "image_url": "[image]", "input_audio": "[audio]"}


def normalize_messages(value: Any, *, field_name: str = "messages") -> Messages:
    """Messages from text or tables. Raises TypeError that names the field."""
    try:
        return as_messages(value)
    except TypeError as error:
        raise TypeError(f"{field_name}: {error}") from None


def from_raw_message(message: dict[str, Any]) -> Message:
    """One message from a table."""
    return as_messages(message)[0]


def get_messages(messages: Sequence[Any], role: str | None = None) -> Messages:
    """The messages, or those of one role."""
    return [each for each in as_messages(messages) if role in (None, each["role"])]


def message_role(message: Any) -> str | None:
    """The role of a message, however it is held."""
    return message.get("role") if hasattr(message, "get") else getattr(message, "role", None)


def concat_messages(messages_list: Iterable[Messages]) -> Messages:
    """Several conversations as one."""
    return [message for messages in messages_list for message in messages]


def sanitize_tool_calls(messages: Messages) -> Messages:
    """The messages as they are: calls of tools are tables here already."""
    return messages


def messages_to_printable(messages: Any) -> Any:
    """The messages, with words instead of pictures and sounds."""
    return messages if isinstance(messages, str) else [message_to_printable(each) for each in messages or []]


def message_to_printable(message: Message) -> Message:
    """A message, with words instead of pictures and sounds."""
    if not isinstance(message.get("content"), list):
        return message
    words = [_PLACEHOLDERS.get(part.get("type"), part.get("text")) for part in message["content"]]
    return as_messages({**message, "content": " ".join(word for word in words if word)})[0]


async def parse_response_messages(response: Response | Any, *_no_effect: Any) -> Messages:
    """The messages of an answer: one of the assistant's."""
    return [as_response(response).message]


async def parse_is_truncated(response: Response | Any, *_no_effect: Any) -> bool:
    """Whether an answer was cut off."""
    return as_response(response).is_truncated


class TextContentPart(AttributeTable):
    """A part of a message that is text."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(type="text")
        self.update(*given, **fields)


class ImageUrlContentPart(AttributeTable):
    """A part of a message that is a picture, by its address."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(type="image_url")
        self.update(*given, **fields)


class InputAudioContentPart(AttributeTable):
    """A part of a message that is a sound."""

    def __init__(self, *given: Any, **fields: Any) -> None:
        super().__init__(type="input_audio")
        self.update(*given, **fields)
