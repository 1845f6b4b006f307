"""Anthropic's messages."""

from collections.abc import Mapping
from typing import Any

from seatrial.gateway.dialects import usual
from seatrial.gateway.dialects.anthropic_stream import AnthropicAssembler
from seatrial.gateway.dialects.api import Payload, StreamAssembler
from seatrial.gateway.dialects.fields import counted, dump, is_count, overridden, table, text, with_cache_writes
from seatrial.gateway.ended import TokenCounts
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import CallErrorKind

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}

messages = usual.messages
without_messages = usual.without_messages
asks_for_stream = usual.asks_for_stream
with_usage = usual.usage_is_told
hides = usual.hides_nothing
may_hide = usual.holds_nothing_to_hide


def check(payload: Any) -> str | None:
    """Why a request is malformed beyond passing on, or None."""
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    if not isinstance(payload.get("messages"), list):
        return "messages: field required, as an array"
    return None


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set. There is no seed here."""
    values = {name: sampling.get(name) for name in ("temperature", "top_p", "max_tokens")}
    stop = sampling.get("stop")
    values["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    return overridden(payload, model, values)


def assembler() -> StreamAssembler:
    """A new assembler for one stream."""
    return AnthropicAssembler()


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it, which may be that it has nothing to say."""
    return isinstance(table(response).get("content"), list)


def counts(response: Any) -> TokenCounts | None:
    """What an answer consumed. Tokens read from or written to the cache come on top of its `input_tokens`."""
    found = table(table(response).get("usage"))
    if not found:
        return None
    cached, stored = found.get("cache_read_input_tokens") or 0, found.get("cache_creation_input_tokens") or 0
    read = (found.get("input_tokens"), cached, stored)
    counts = counted(
        sum(read) if all(map(is_count, read)) else None,
        cached,
        found.get("output_tokens"),
        table(found.get("output_tokens_details")).get("thinking_tokens"),
    )
    return with_cache_writes(counts, stored, table(found.get("cache_creation")).get("ephemeral_1h_input_tokens"))


def finish_reason(response: Any) -> str | None:
    """Why the model stopped."""
    return text(table(response).get("stop_reason"))


def error_body(status: int, kind: CallErrorKind, message: str) -> Payload:
    """The body of an error answer; its type follows from the status alone."""
    name = _ERROR_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": name, "message": message}}


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    """An error in the middle of a stream, which the SDKs raise."""
    return SseEvent("error", dump(error_body(status, kind, message)))
