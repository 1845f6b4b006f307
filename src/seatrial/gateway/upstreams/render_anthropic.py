"""Anthropic messages: a reply as a whole message, and a whole message as the events it would have come in."""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from seatrial.gateway.upstreams.pieces import named_event, pieces
from seatrial.gateway.upstreams.reply import Reply, ToolCall
from seatrial.model.trace import TokenUsage

_START: Mapping[str, Mapping[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""What a block that streams has in it when it starts. Blocks of other types come whole."""


def render(reply: Reply, model: str, serial: int, usage: TokenUsage) -> dict[str, Any]:
    """A `message`."""
    content: list[dict[str, Any]] = []
    if reply.reasoning:
        content.append({"type": "thinking", "thinking": reply.reasoning, "signature": ""})
    if reply.text:
        content.append({"type": "text", "text": reply.text, "citations": None})
    content += [_tool_use(call, serial, at) for at, call in enumerate(reply.tool_calls)]
    return {
        "id": f"msg_{serial:08d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if reply.tool_calls else "end_turn",
        "stop_sequence": None,
        "usage": _usage(usage),
    }


def events(message: Mapping[str, Any], include_usage: bool) -> Iterator[bytes]:  # noqa: FBT001 - one of three alike
    """The events of a `message`. Usage is always told in this dialect, so `include_usage` changes nothing."""
    del include_usage
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    yield named_event({"type": "message_start", "message": {**start, "usage": {**usage, "output_tokens": 1}}})
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    ending = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details") if key in message}
    yield named_event({"type": "message_delta", "delta": ending, "usage": _final_usage(usage)})
    yield named_event({"type": "message_stop"})


def _block_events(index: int, block: Mapping[str, Any]) -> Iterator[bytes]:
    begin = {**block, **_START.get(block["type"], {})}
    yield named_event({"type": "content_block_start", "index": index, "content_block": begin})
    for delta in _block_deltas(block):
        yield named_event({"type": "content_block_delta", "index": index, "delta": delta})
    yield named_event({"type": "content_block_stop", "index": index})


def _block_deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    if kind == "text":
        yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
    elif kind == "thinking":
        yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
        yield {"type": "signature_delta", "signature": block.get("signature", "")}
    elif kind == "tool_use":
        # The empty first piece is the provider's own habit; clients start their buffers on it.
        for piece in ("", *pieces(orjson.dumps(block["input"]).decode())):
            yield {"type": "input_json_delta", "partial_json": piece}


def _tool_use(call: ToolCall, serial: int, at: int) -> dict[str, Any]:
    try:
        value = orjson.loads(call.arguments)
    except ValueError:
        value = {"malformed": call.arguments}  # this dialect has no room for arguments that are not JSON
    return {"type": "tool_use", "id": call.id or f"toolu_{serial:08d}_{at}", "name": call.name, "input": value}


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": max(usage.input_tokens - usage.cached_tokens, 0),  # here the cached ones are counted apart
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def _final_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    told = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    return {key: usage[key] for key in told if key in usage}
