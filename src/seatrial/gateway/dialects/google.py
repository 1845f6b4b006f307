"""Google's Gemini API: generateContent and streamGenerateContent."""

import re
from collections.abc import Mapping
from typing import Any

from seatrial.gateway.dialects import usual
from seatrial.gateway.dialects.api import Payload, StreamAssembler
from seatrial.gateway.dialects.fields import counted, dump, is_count, items, overridden, table, text
from seatrial.gateway.dialects.google_stream import GoogleAssembler
from seatrial.gateway.ended import TokenCounts
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import CallErrorKind

_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    504: "DEADLINE_EXCEEDED",
}
# By this Gemini CLI knows that it need not ask again; without it, it asks ten times.
_USED_UP = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "MODEL_CAPACITY_EXHAUSTED"}
_CAPITAL = re.compile(r"[A-Z]")

asks_for_stream = usual.asks_for_stream
with_usage = usual.usage_is_told
hides = usual.hides_nothing
may_hide = usual.holds_nothing_to_hide


def check(payload: Any) -> str | None:
    """Why a request is malformed beyond passing on, or None."""
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    return None if isinstance(payload.get("contents"), list | dict) else "`contents` is missing or not an array"


def messages(payload: Payload) -> list[Any]:
    """The conversation of a request; `systemInstruction` is not part of it. A single content may stand alone."""
    found = payload.get("contents")
    return [found] if isinstance(found, dict) else items(found)


def without_messages(payload: Payload) -> Payload:
    """The request without its conversation."""
    rest = payload.copy()
    rest.pop("contents", None)
    return rest


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set. The model is written into the path when it is sent."""
    stop = sampling.get("stop")
    values = {
        "temperature": sampling.get("temperature"),
        "topP": sampling.get("top_p"),
        "seed": sampling.get("seed"),
        "maxOutputTokens": sampling.get("max_tokens"),
        "stopSequences": [stop] if isinstance(stop, str) else stop,
    }
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        return overridden(payload, model, {})
    kept = {name: value for name, value in config_of(payload).items() if name not in changes}
    changed = {**payload, "generationConfig": {**_without_other_spelling(kept, changes), **changes}}
    changed.pop("generation_config", None)
    return overridden(changed, model, {})


def config_of(payload: Payload) -> Payload:
    """The settings of a request, in either of the two spellings that Google takes."""
    return table(payload.get("generationConfig")) or table(payload.get("generation_config"))


def _without_other_spelling(config: Payload, names: Mapping[str, Any]) -> Payload:
    others = {_CAPITAL.sub(lambda found: f"_{found[0].lower()}", name) for name in names}
    return {name: value for name, value in config.items() if name not in others}


def assembler() -> StreamAssembler:
    """A new assembler for one stream."""
    return GoogleAssembler()


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it: a candidate, or the reason why a prompt has none."""
    answer = table(response)
    return bool(items(answer.get("candidates"))) or bool(table(answer.get("promptFeedback")).get("blockReason"))


def counts(response: Any) -> TokenCounts | None:
    """What an answer consumed. Counts of nothing are left out by Google, and thoughts come on top of the words."""
    found = table(table(response).get("usageMetadata"))
    if not found:
        return None
    read = (found.get("promptTokenCount"), found.get("toolUsePromptTokenCount") or 0)
    thought = found.get("thoughtsTokenCount") or 0
    written = (found.get("candidatesTokenCount") or 0, thought)
    return counted(
        sum(read) if all(map(is_count, read)) else None,
        found.get("cachedContentTokenCount"),
        sum(written) if all(map(is_count, written)) else None,
        thought,
    )


def finish_reason(response: Any) -> str | None:
    """Why the model stopped its first candidate, or why a prompt was turned away."""
    answer = table(response)
    first = next(iter(items(answer.get("candidates"))), None)
    return text(table(first).get("finishReason")) or text(table(answer.get("promptFeedback")).get("blockReason"))


def error_body(status: int, kind: CallErrorKind, message: str) -> Payload:
    """The body of an error answer."""
    name = _STATUSES.get(status) or ("UNAVAILABLE" if status >= 500 else "FAILED_PRECONDITION")
    error = {"code": status, "message": message, "status": name}
    return {"error": {**error, "details": [_USED_UP]} if kind == "budget" else error}


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    """An error in the middle of a stream."""
    return SseEvent(None, dump(error_body(status, kind, message)))
