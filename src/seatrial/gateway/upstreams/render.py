"""Whole answers and event streams in each dialect, for the upstreams that have no provider behind them.

A stream is made from the whole answer, so that a recorded or cached one can be streamed too. Nothing in it is random or
depends on the clock: the same reply gives the same bytes.
"""

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from seatrial.gateway.upstreams import render_anthropic, render_chat, render_responses
from seatrial.gateway.upstreams.reply import Reply
from seatrial.model.trace import Dialect, TokenUsage

_RENDERERS: Mapping[Dialect, ModuleType] = {
    "openai_chat": render_chat,
    "openai_responses": render_responses,
    "anthropic": render_anthropic,
}


def render_response(
    dialect: Dialect, reply: Reply, *, model: str = "scripted", serial: int = 0, usage: TokenUsage | None = None
) -> dict[str, Any]:
    """The whole answer a provider of this dialect would give; `serial` makes its ids differ from those of others."""
    counts = usage or reply.usage or TokenUsage()
    answer: dict[str, Any] = _RENDERERS[dialect].render(reply, model, serial, counts)
    return answer


def render_stream(
    dialect: Dialect, answer: Reply | Mapping[str, Any], *, include_usage: bool = True
) -> Iterator[bytes]:
    """The same answer as a stream of events, in several pieces. Raises ValueError if it is no answer of the dialect.

    `include_usage` is for chat completions, where the client has to ask for it.
    """
    response = render_response(dialect, answer) if isinstance(answer, Reply) else answer
    try:
        events = list(_RENDERERS[dialect].events(response, include_usage))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"this is not an answer in {dialect} that could be streamed: {error!r}") from error
    return iter(events)
