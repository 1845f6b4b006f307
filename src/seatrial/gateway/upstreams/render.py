"""Replies in the words of each dialect, for the upstreams that have no provider behind them.

A stream is made from the whole answer, so that a recorded or cached one can be streamed too. Nothing in it is random or
depends on the clock: the same reply gives the same bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from seatrial.gateway.agent_tools import PLAIN_TOOLS, AgentTools
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.neutral.answers import split_answer, write_answer
from seatrial.gateway.neutral.checks import arguments_object
from seatrial.gateway.neutral.types import Answer, Called, Item, Reasoned, Said, Text, Untranslatable
from seatrial.gateway.sse import encode_event
from seatrial.gateway.translate import for_the_agent
from seatrial.gateway.upstreams.reply import Reply, ReplyCall
from seatrial.model.trace import Dialect, TokenUsage

_PREFIXES: Mapping[Dialect, tuple[str, str]] = {
    "openai_chat": ("chatcmpl-", "call_"),
    "openai_responses": ("resp_", "call_"),
    "anthropic": ("msg_", "toolu_"),
    "google": ("resp_", "call_"),
}
"""Of the ids of answers and of calls; some clients look at them."""


def render_response(
    dialect: Dialect,
    reply: Reply,
    *,
    model: str = "scripted",
    serial: int = 0,
    usage: TokenUsage | None = None,
    agent_tools: AgentTools = PLAIN_TOOLS,
) -> dict[str, Any]:
    """The whole answer a provider of this dialect would give; `serial` makes its ids differ from those of others.

    Calls are written as `agent_tools` say.
    """
    items: list[Item] = [Reasoned(reply.reasoning)] if reply.reasoning else []
    if reply.text or not reply.tool_calls:
        items.append(Said("assistant", (Text(reply.text),)))
    for slot, call in enumerate(reply.tool_calls):
        called = _called(dialect, call, f"{serial:08d}_{slot}")
        items.append(for_the_agent(called, agent_tools))
    return write_answer(
        Answer(
            id=f"{_PREFIXES[dialect][0]}{serial:08d}",
            model=model,
            items=tuple(items),
            stop="tool_calls" if reply.tool_calls else "stop",
            usage=usage or reply.usage or TokenUsage(),
        ),
        dialect,
    )


def _called(dialect: Dialect, call: ReplyCall, own_id: str) -> Called:
    arguments = call.arguments
    if dialect in ("anthropic", "google"):  # which have no room for arguments that are no JSON object
        try:
            arguments_object(arguments, call.name)
        except Untranslatable:
            arguments = dump({"malformed": arguments})
    return Called(call.id or _PREFIXES[dialect][1] + own_id, call.name, arguments)


def render_stream(
    dialect: Dialect, answer: Reply | Mapping[str, Any], *, include_usage: bool = True
) -> Iterator[bytes]:
    """The same answer as a stream of events, in several pieces. Raises ValueError if it is no answer of the dialect.

    `include_usage` is for chat completions, where the client has to ask for it.
    """
    response = render_response(dialect, answer) if isinstance(answer, Reply) else answer
    try:
        orjson.dumps(response)  # what cannot be sent whole is not sent as a stream either
        events = [encode_event(event) for event in split_answer(response, dialect, include_usage=include_usage)]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not an answer in {dialect} that could be streamed: {error!r}") from error
    return iter(events)
