"""What several dialects do in the same way; each takes over what fits it."""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import items


def asks_for_stream(payload: Payload) -> bool:
    """Whether the answer is to be streamed."""
    return payload.get("stream") is True


def messages(payload: Payload) -> list[Any]:
    """The conversation of a request that has it as `messages`; a `system` beside them is not part of it."""
    return items(payload.get("messages"))


def without_messages(payload: Payload) -> Payload:
    """Such a request without its conversation."""
    rest = payload.copy()
    rest.pop("messages", None)
    return rest


def usage_is_told(payload: Payload) -> Payload:
    """The request as it is, in a dialect whose streams always say what they consumed."""
    return payload


def hides_nothing(data: str) -> bool:
    """Never, where nothing is asked for behind the agent's back."""
    return False


def holds_nothing_to_hide(chunk: bytes) -> bool:
    """Never, as above."""
    return False
