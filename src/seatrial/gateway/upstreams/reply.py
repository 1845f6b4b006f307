"""Reply: what a model without a provider says, before it is put in the words of a dialect.

A script, a file of a test or a trainer's function writes replies as text or as a small table; `parse_reply` reads both.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from seatrial.model.trace import TokenUsage

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
    """About how many tokens a request has."""
    try:
        return estimate_tokens(len(orjson.dumps(payload))) if payload else 0
    except orjson.JSONEncodeError:  # nested more deeply than it can write, though not than it can read
        return 0


def estimate_tokens(size: int) -> int:
    """About how many tokens so many bytes are."""
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
