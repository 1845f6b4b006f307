"""OpenAI chat completions: a reply as a whole answer, and a whole answer as the chunks it would have come in."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.gateway.upstreams.pieces import data_event, pieces
from seatrial.gateway.upstreams.reply import Reply, ToolCall
from seatrial.model.trace import TokenUsage

_SPLIT = ("reasoning_content", "reasoning", "content", "refusal")
"""Fields of a message that stream as text, piece by piece, in the order in which they come."""


def render(reply: Reply, model: str, serial: int, usage: TokenUsage) -> dict[str, Any]:
    """A `chat.completion`."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None, "refusal": None}
    if not reply.tool_calls:
        message["content"] = reply.text
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [_tool_call(call, serial, at) for at, call in enumerate(reply.tool_calls)]
    finish = "tool_calls" if reply.tool_calls else "stop"
    return {
        "id": f"chatcmpl-{serial:08d}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": _usage(usage),
    }


def events(response: Mapping[str, Any], include_usage: bool) -> Iterator[bytes]:  # noqa: FBT001 - one of three alike
    """The chunks of a `chat.completion`, the last one with usage if that was asked for."""
    head = {key: value for key, value in response.items() if key not in {"choices", "usage"}}
    head["object"] = "chat.completion.chunk"
    for choice in response["choices"]:
        for delta in _deltas(choice["message"]):
            yield data_event({**head, "choices": [{"index": choice["index"], "delta": delta, "finish_reason": None}]})
        rest = {key: value for key, value in choice.items() if key != "message"}
        yield data_event({**head, "choices": [{**rest, "delta": {}}]})
    if include_usage:
        yield data_event({**head, "choices": [], "usage": response.get("usage")})
    yield b"data: [DONE]\n\n"


def _deltas(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    whole = {key: value for key, value in message.items() if key not in _SPLIT and key != "tool_calls"}
    yield {**whole, "content": "" if message.get("content") is not None else None}
    for field in _SPLIT:
        value = message.get(field)
        if isinstance(value, str):
            yield from ({field: piece} for piece in pieces(value))
        elif value is not None:
            yield {field: value}
    for at, call in enumerate(message.get("tool_calls") or []):
        yield from _call_deltas(at, call)


def _call_deltas(at: int, call: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    function = call.get("function")
    if function is None:  # a kind of call we do not know travels in one piece
        yield {"tool_calls": [{"index": at, **call}]}
        return
    yield {"tool_calls": [{"index": at, **call, "function": {**function, "arguments": ""}}]}
    for piece in pieces(function.get("arguments") or ""):
        yield {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}


def _tool_call(call: ToolCall, serial: int, at: int) -> dict[str, Any]:
    return {
        "id": call.id or f"call_{serial:08d}_{at}",
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
