"""OpenAI's responses."""

from collections.abc import Mapping
from typing import Any

from seatrial.gateway.dialects import openai_errors, usual
from seatrial.gateway.dialects.api import Payload, StreamAssembler
from seatrial.gateway.dialects.fields import counted, dump, overridden, table, text, told_error, with_cache_writes
from seatrial.gateway.dialects.openai_responses_stream import ResponsesAssembler
from seatrial.gateway.ended import TokenCounts
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import CallErrorKind

error_body = openai_errors.error_body
_INSTEAD_OF_INPUT = ("previous_response_id", "prompt", "conversation")

asks_for_stream = usual.asks_for_stream
with_usage = usual.usage_is_told
hides = usual.hides_nothing
may_hide = usual.holds_nothing_to_hide


def check(payload: Any) -> str | None:
    """Why a request is malformed beyond passing on, or None."""
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    if payload.get("background"):
        return "`background` is true: an answer that is fetched later cannot be had here; leave it out, or stream"
    given = payload.get("input")
    if given is None and any(payload.get(name) is not None for name in _INSTEAD_OF_INPUT):
        return None
    return None if isinstance(given, str | list) else "`input` is missing or neither text nor an array"


def messages(payload: Payload) -> list[Any]:
    """The conversation of a request. Input that is text counts as one message; `instructions` do not."""
    given = payload.get("input")
    if isinstance(given, str):
        return [given]
    return given if isinstance(given, list) else []


def without_messages(payload: Payload) -> Payload:
    """The request without its conversation."""
    return {name: value for name, value in payload.items() if name != "input"}


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set. There are no seed and no stop here."""
    values = {name: sampling.get(name) for name in ("temperature", "top_p")}
    return overridden(payload, model, {**values, "max_output_tokens": sampling.get("max_tokens")})


def assembler() -> StreamAssembler:
    """A new assembler for one stream."""
    return ResponsesAssembler()


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it. One that failed has an error, and an empty output beside it."""
    output = table(response).get("output")
    return isinstance(output, list) and (bool(output) or told_error(response) is None)


def counts(response: Any) -> TokenCounts | None:
    """What an answer consumed, if it says so."""
    found = table(table(response).get("usage"))
    if not found:
        return None
    details = table(found.get("input_tokens_details"))
    counts = counted(
        found.get("input_tokens"),
        details.get("cached_tokens"),
        found.get("output_tokens"),
        table(found.get("output_tokens_details")).get("reasoning_tokens"),
    )
    return with_cache_writes(counts, details.get("cache_write_tokens"))


def finish_reason(response: Any) -> str | None:
    """Why the model stopped: the reason of an incomplete answer, else its status."""
    answer = table(response)
    return text(table(answer.get("incomplete_details")).get("reason")) or text(answer.get("status"))


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    """An error in the middle of a stream, both as documented and as sent, which is what the SDK raises."""
    error = error_body(status, kind, message)["error"]
    flat = {"type": "error", "code": error["code"] or error["type"], "message": message, "param": None}
    return SseEvent("error", dump({**flat, "sequence_number": 0, "error": error}))
