"""OpenAI's chat completions, the dialect that most servers speak."""

from collections.abc import Mapping
from typing import Any

from seatrial.gateway.dialects import openai_errors, usual
from seatrial.gateway.dialects.api import Payload, StreamAssembler
from seatrial.gateway.dialects.fields import (
    counted,
    dump,
    items,
    overridden,
    parse_object,
    table,
    text,
    with_cache_writes,
)
from seatrial.gateway.dialects.openai_chat_stream import ChatAssembler
from seatrial.gateway.ended import TokenCounts
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import CallErrorKind

error_body = openai_errors.error_body
_LENGTH_NAMES = ("max_tokens", "max_completion_tokens")

messages = usual.messages
without_messages = usual.without_messages
asks_for_stream = usual.asks_for_stream


def check(payload: Any) -> str | None:
    """Why a request is malformed beyond passing on, or None."""
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    if not isinstance(payload.get("messages"), list):
        return "`messages` is missing or not an array"
    return None


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set."""
    values = {name: sampling.get(name) for name in ("temperature", "top_p", "seed", "stop")}
    # Servers know one of the two names or both: the one that the agent chose is the one that its server knows.
    names = [name for name in _LENGTH_NAMES if payload.get(name) is not None] or ["max_completion_tokens"]
    values.update(dict.fromkeys(names, sampling.get("max_tokens")))
    return overridden(payload, model, values)


def with_usage(payload: Payload) -> Payload:
    """A streaming request that asks for the count of tokens, which streams leave out otherwise."""
    options = table(payload.get("stream_options"))
    if not asks_for_stream(payload) or options.get("include_usage") is True:
        return payload
    return {**payload, "stream_options": {**options, "include_usage": True}}


def hides(data: str) -> bool:
    """Whether an event holds nothing but the count of tokens."""
    if '"prompt_tokens"' not in data:  # most events end here, without being parsed
        return False
    chunk = parse_object(data) or {}
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def may_hide(chunk: bytes) -> bool:
    """Whether there is a count of tokens anywhere."""
    return b'"prompt_tokens"' in chunk


def assembler() -> StreamAssembler:
    """A new assembler for one stream."""
    return ChatAssembler()


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it: a choice at least."""
    return bool(items(table(response).get("choices")))


def counts(response: Any) -> TokenCounts | None:
    """What an answer consumed, if it says so."""
    found = table(table(response).get("usage"))
    if not found:
        return None
    details = table(found.get("prompt_tokens_details"))
    counts = counted(
        found.get("prompt_tokens"),
        details.get("cached_tokens"),
        found.get("completion_tokens", None if "choices" in response else 0),  # vectors have none
        table(found.get("completion_tokens_details")).get("reasoning_tokens"),
    )
    return with_cache_writes(counts, details.get("cache_write_tokens"))


def finish_reason(response: Any) -> str | None:
    """Why the model stopped its first choice."""
    try:
        return text(response["choices"][0]["finish_reason"])
    except (LookupError, TypeError):  # no such choice, or nothing that has any
        return None


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    """An error in the middle of a stream, which the SDKs raise."""
    return SseEvent(None, dump(error_body(status, kind, message)))
