"""The ways in which agents speak to models, one pure module each."""

from typing import Any

import orjson

from seatrial.gateway.dialects import anthropic, google, google_paths, openai_chat, openai_responses
from seatrial.gateway.dialects.api import DialectModule, Payload
from seatrial.model.trace import Dialect, TokenUsage

DIALECTS: dict[Dialect, DialectModule] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "google": google,
}

PATHS: dict[Dialect, str] = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
"""Where each dialect is spoken that has one path; `call_path` knows it of all."""

_BY_PATH = {path.removeprefix("/v1"): dialect for dialect, path in PATHS.items()}


def usage_of(dialect: Dialect, response: Any) -> TokenUsage | None:
    """What an answer consumed, if it says so."""
    counts = DIALECTS[dialect].counts(response)
    return None if counts is None else TokenUsage(**counts)


def dialect_of(path: str) -> Dialect | None:
    """The dialect of a call to `path`, with or without `/v1`; None for any other path."""
    bare = path.partition("?")[0].partition("#")[0].rstrip("/")
    known = _BY_PATH.get(bare.removeprefix("/v1"))
    if known is None and (found := google_paths.read_path(bare)) is not None and found.is_call:
        return "google"
    return known


def call_path(dialect: Dialect, payload: Payload) -> str:
    """Where a call with this payload goes. Raises ValueError for a model that cannot stand in a path."""
    return google_paths.path_for(payload) if dialect == "google" else PATHS[dialect]


def call_body(dialect: Dialect | None, payload: Payload) -> bytes:
    """The body of a call with this payload. Raises orjson.JSONEncodeError for what is nested too deeply."""
    return orjson.dumps(google_paths.without_path(payload) if dialect == "google" else payload)
