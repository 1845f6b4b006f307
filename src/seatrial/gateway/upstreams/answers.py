"""Answers on their way to the gateway, made here rather than by a provider."""

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import orjson

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.upstreams.render import render_stream
from seatrial.gateway.upstreams.reply import estimate_input, estimate_tokens
from seatrial.model.trace import Dialect

ALL_DIALECTS: frozenset[Dialect] = frozenset({"openai_chat", "openai_responses", "anthropic", "google"})

JSON_HEADERS: Mapping[str, str] = {"content-type": "application/json"}
STREAM_HEADERS: Mapping[str, str] = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


_JSON_START = (b"{",)
_EVENT_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_BEGINNINGS: Mapping[Dialect, re.Pattern[bytes]] = {
    "openai_chat": re.compile(rb'"choices"\s*:\s*\[\s*\{'),
    "openai_responses": re.compile(rb'"output"\s*:\s*\[\s*\{'),
    "anthropic": re.compile(rb'"content"\s*:\s*\['),
    "google": re.compile(rb'"candidates"\s*:\s*\[\s*\{'),
}
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


def could_be_answer(first: bytes, *, stream: bool) -> bool:
    """Whether an answer of a model could begin with these bytes, whatever its content type says."""
    start = first.removeprefix(_BOM).lstrip(_BLANK)
    if not start:
        return bool(first)  # blank lines are sent to keep a connection alive
    known = _EVENT_STARTS if stream else _JSON_START
    return start.startswith(known) or any(each.startswith(start) for each in known)


def is_answer(body: bytes, dialect: Dialect) -> bool:
    """Whether there is an answer of a model in a whole body; one that is no JSON is judged by who reads it."""
    if (
        _BEGINNINGS[dialect].search(body) and b'"error"' not in body
    ):  # nearly every answer, and quicker than to parse it
        return True
    try:
        return DIALECTS[dialect].holds_answer(orjson.loads(body))
    except orjson.JSONDecodeError:
        return True


def final_error(message: str, status: int | None = None) -> ProviderError:
    """An error that another attempt at the trial would only meet again."""
    error = ProviderError(message, status)
    error.retryable = False
    return error


def reply_in_pieces(status: int, headers: Mapping[str, str], pieces: Iterable[bytes]) -> ModelReply:
    """An answer whose pieces are all here already."""
    return ModelReply(status, headers, _each(pieces))


def json_reply(status: int, value: Any) -> ModelReply:
    """An answer of one piece."""
    return reply_in_pieces(status, JSON_HEADERS, [orjson.dumps(value)])


def error_reply(request: ModelRequest, status: int, message: str) -> ModelReply:
    """The agent's own mistake, worded as a provider of its dialect would."""
    dialect = DIALECTS[request.dialect or "openai_chat"]
    return json_reply(status, dialect.error_body(status, "agent", message))


def answer(request: ModelRequest, response: Mapping[str, Any]) -> ModelReply:
    """A whole response, streamed if that is what the agent asked for. Raises ProviderError if it cannot be sent so."""
    try:
        if not request.stream or request.dialect is None:
            return json_reply(200, response)
        events = render_stream(request.dialect, response, include_usage=_usage_wanted(request.payload))
    except (ValueError, orjson.JSONEncodeError) as error:
        raise final_error(f"this answer cannot be sent: {error}") from error
    return reply_in_pieces(200, STREAM_HEADERS, events)


def check_sendable(response: Mapping[str, Any]) -> None:
    """Raise ProviderError for a response that could not be sent."""
    try:
        orjson.dumps(response)
    except orjson.JSONEncodeError as error:
        raise final_error(f"this answer cannot be sent: {error}") from error


def side_answer(request: ModelRequest, model: str) -> ModelReply:
    """What an upstream without a provider says on paths other than those of its dialects."""
    path = request.path.partition("?")[0].rstrip("/")
    if path.endswith(":countTokens"):
        return json_reply(200, {"totalTokens": estimate_tokens(len(request.body))})
    if path.endswith("/models"):
        found = [_model(model)]
        return json_reply(200, {"object": "list", "data": found, "has_more": False, "models": found})
    if "/models/" in path:
        return json_reply(200, _model(path.rpartition("/models/")[2]))
    if path.endswith(("/count_tokens", "/input_tokens")):
        # The gateway does not read such a request.
        size = estimate_tokens(len(request.body)) if request.body else estimate_input(request.payload)
        return json_reply(200, {"input_tokens": size})
    return error_reply(request, 404, f"there is nothing at {path} of the model {model}")


def asked_model(request: ModelRequest, default: str) -> str:
    """The model a request names."""
    named = (request.payload or {}).get("model")
    return named if isinstance(named, str) else default


def _model(name: str) -> dict[str, Any]:
    # One table that all SDKs can read; Google's asks at the same paths as the others.
    epoch = "1970-01-01T00:00:00Z"
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "seatrial"}
    google = {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": ["generateContent"]}
    return {**openai, **google, "type": "model", "display_name": name, "created_at": epoch}


def _usage_wanted(payload: Mapping[str, Any] | None) -> bool:
    options = (payload or {}).get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
