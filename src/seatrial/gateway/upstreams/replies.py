"""Answers that are made here: what upstreams without a provider say, in the words of any dialect.

A script, a file of a test or a trainer's function writes a Reply as text or as a small table, which `parse_reply`
reads. The same reply always gives the same bytes: nothing in an answer is random or depends on the clock.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.base import PLAIN_TOOLS, AgentTools, encode_event
from seatrial.gateway.dialects import DIALECTS, token_counter
from seatrial.gateway.dialects.base import Dialect
from seatrial.gateway.neutral.checks import arguments_object
from seatrial.gateway.neutral.types import Answer, Untranslatable
from seatrial.gateway.translate import for_the_agent
from seatrial.messages import Item, Message, Reasoning, ToolCall
from seatrial.model.trace import DialectName, TokenUsage
from seatrial.untrusted.json import dump

_KEYS = frozenset({"text", "reasoning", "tool_calls", "usage"})
_CALL_KEYS = frozenset({"name", "arguments", "id"})
_BYTES_PER_TOKEN = 4  # a rule of thumb for English and code; an estimate has to be steady, not exact


@dataclass(frozen=True, slots=True)
class ReplyCall:
    """A call of a tool; `arguments` is JSON text, or whatever text a test wants to see an agent survive."""

    name: str
    arguments: str = "{}"
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of a model: text, calls of tools, or both. `usage` is estimated when it is not given."""

    text: str = ""
    tool_calls: tuple[ReplyCall, ...] = ()
    reasoning: str = ""
    usage: TokenUsage | None = None


def parse_reply(value: object) -> Reply:
    """A reply from text or from a table with `text`, `tool_calls`, `reasoning`, `usage`. Raises ValueError."""
    if isinstance(value, str):
        return Reply(text=value)
    if not isinstance(value, Mapping) or not value:
        raise ValueError(f"a reply is text or a table, not {_shown(value)}")
    if unknown := sorted(set(value) - _KEYS):
        raise ValueError(f"a reply has no {', '.join(map(repr, unknown))}; it has: {', '.join(sorted(_KEYS))}")
    calls = value.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError(f"tool_calls is a list, not {_shown(calls)}")  # noqa: TRY004 - callers await ValueError
    return Reply(
        text=_text(value, "text"),
        tool_calls=tuple(_parse_call(call) for call in calls),
        reasoning=_text(value, "reasoning"),
        usage=_parse_usage(value.get("usage")),
    )


def estimate_usage(payload: Mapping[str, Any] | None, reply: Reply) -> TokenUsage:
    """The same counts for the same request and reply, every time; what the reply itself says goes first."""
    if reply.usage is not None:
        return reply.usage
    said = reply.text + reply.reasoning + "".join(call.name + call.arguments for call in reply.tool_calls)
    return TokenUsage(
        input_tokens=estimate_input(payload),
        output_tokens=estimate_tokens(len(said.encode(errors="replace"))),
        reasoning_tokens=estimate_tokens(len(reply.reasoning.encode(errors="replace"))),
    )


def estimate_input(payload: Mapping[str, Any] | None) -> int:
    try:
        return estimate_tokens(len(orjson.dumps(payload))) if payload else 0
    except orjson.JSONEncodeError:  # nested more deeply than it can write, though not than it can read
        return 0


def estimate_tokens(size: int) -> int:
    return -(-size // _BYTES_PER_TOKEN)


def _parse_call(value: object) -> ReplyCall:
    if not isinstance(value, Mapping) or not isinstance(value.get("name"), str):
        raise ValueError(f"a tool call is a table with a name, not {_shown(value)}")  # noqa: TRY004 - as above
    if unknown := sorted(set(value) - _CALL_KEYS):
        raise ValueError(f"a tool call has no {', '.join(map(repr, unknown))}; it has: {', '.join(sorted(_CALL_KEYS))}")
    arguments = value.get("arguments", {})
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    return ReplyCall(value["name"], text, value.get("id"))


def _parse_usage(value: object) -> TokenUsage | None:
    if value is None or isinstance(value, TokenUsage):
        return value
    try:
        return TokenUsage.model_validate(value)
    except ValidationError as error:
        fields = ", ".join(TokenUsage.model_fields)
        raise ValueError(f"usage is a table of counts ({fields}), not {_shown(value)}") from error


def _text(value: Mapping[Any, Any], key: str) -> str:
    text = value.get(key)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise ValueError(f"{key} is text, not {_shown(text)}")  # noqa: TRY004 - callers await ValueError
    return text


def _shown(value: object) -> str:
    return repr(value)[:120]


# Replies in the words of each dialect. A stream is made from the whole answer, so that a recorded or cached one can be
# streamed too.


def render_response(
    dialect: DialectName,
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
    spoken = DIALECTS[dialect]
    items: list[Item] = [Reasoning(reply.reasoning)] if reply.reasoning else []
    if reply.text or not reply.tool_calls:
        items.append(Message("assistant", (reply.text,)))
    for slot, call in enumerate(reply.tool_calls):
        called = _called(spoken, call, f"{serial:08d}_{slot}")
        items.append(for_the_agent(called, agent_tools))
    return spoken.write_answer(
        Answer(
            id=f"{spoken.id_prefixes[0]}{serial:08d}",
            model=model,
            items=tuple(items),
            stop="tool_calls" if reply.tool_calls else "stop",
            usage=usage or reply.usage or TokenUsage(),
        )
    )


def _called(dialect: Dialect, call: ReplyCall, own_id: str) -> ToolCall:
    arguments = call.arguments
    if dialect.arguments_are_objects:
        try:
            arguments_object(arguments, call.name)
        except Untranslatable:
            arguments = dump({"malformed": arguments})
    return ToolCall(call.id or dialect.id_prefixes[1] + own_id, call.name, arguments)


def render_stream(
    dialect: DialectName, answer: Reply | Mapping[str, Any], *, include_usage: bool = True
) -> Iterator[bytes]:
    """The same answer as a stream of events, in several pieces. Raises ValueError if it is no answer of the dialect.

    `include_usage` is for chat completions, where the client has to ask for it.
    """
    spoken = DIALECTS[dialect]
    response = render_response(dialect, answer) if isinstance(answer, Reply) else answer
    try:
        orjson.dumps(response)  # what cannot be sent whole is not sent as a stream either
        written = spoken.split_answer(response)
        events = [encode_event(event) for event in written if include_usage or not spoken.hides(event.data)]
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not an answer in {dialect} that could be streamed: {error!r}") from error
    return iter(events)


# Answers on their way to the gateway.

JSON_HEADERS: Mapping[str, str] = {"content-type": "application/json"}
STREAM_HEADERS: Mapping[str, str] = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


def final_error(message: str, status: int | None = None) -> ProviderError:
    """An error that another attempt at the trial would only meet again."""
    error = ProviderError(message, status)
    error.retryable = False
    return error


def reply_in_pieces(status: int, headers: Mapping[str, str], pieces: Iterable[bytes]) -> ModelReply:
    return ModelReply(status, headers, _each(pieces))


def json_reply(status: int, value: Any) -> ModelReply:
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
    if (dialect := token_counter(path)) is not None:
        # The gateway does not read such a request.
        size = estimate_tokens(len(request.body)) if request.body else estimate_input(request.payload)
        return json_reply(200, dialect.count_answer(size))
    if path.endswith("/models"):
        found = [_model(model)]
        return json_reply(200, {"object": "list", "data": found, "has_more": False, "models": found})
    if "/models/" in path:
        return json_reply(200, _model(path.rpartition("/models/")[2]))
    return error_reply(request, 404, f"there is nothing at {path} of the model {model}")


def asked_model(request: ModelRequest, default: str) -> str:
    return default if request.model is None else request.model


def _model(name: str) -> dict[str, Any]:
    """One table that all SDKs can read: they ask at the same paths."""
    return {field: value for each in DIALECTS.values() for field, value in each.model_entry(name).items()}


def _usage_wanted(payload: Mapping[str, Any] | None) -> bool:
    options = (payload or {}).get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
