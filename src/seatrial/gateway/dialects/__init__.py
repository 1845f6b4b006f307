"""The ways in which agents speak to models, one pure module each."""

from typing import Any

from seatrial.gateway.dialects import anthropic, openai_chat, openai_responses
from seatrial.gateway.dialects.api import DialectModule
from seatrial.model.trace import Dialect, TokenUsage

DIALECTS: dict[Dialect, DialectModule] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
}

PATHS: dict[Dialect, str] = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
"""Where each dialect is spoken."""

_BY_PATH = {path.removeprefix("/v1"): dialect for dialect, path in PATHS.items()}


def usage_of(dialect: Dialect, response: Any) -> TokenUsage | None:
    """What an answer consumed, if it says so."""
    counts = DIALECTS[dialect].counts(response)
    return None if counts is None else TokenUsage(**counts)


def dialect_of(path: str) -> Dialect | None:
    """The dialect of a call to `path`, with or without `/v1`; None for any other path."""
    bare = path.partition("?")[0].partition("#")[0].rstrip("/")
    return _BY_PATH.get(bare.removeprefix("/v1"))
