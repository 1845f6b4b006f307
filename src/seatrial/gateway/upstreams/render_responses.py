"""OpenAI responses: a reply as a whole response, and a whole response as the events it would have come in."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from seatrial.gateway.upstreams.pieces import named_event, pieces
from seatrial.gateway.upstreams.reply import Reply, ToolCall
from seatrial.model.trace import TokenUsage

_ENDINGS = {"incomplete": "response.incomplete", "failed": "response.failed"}

_TEXT_PARTS = {"output_text": "response.output_text", "refusal": "response.refusal"}
"""Parts of a message that stream as text; the name of the event is followed by `.delta` or `.done`."""


def render(reply: Reply, model: str, serial: int, usage: TokenUsage) -> dict[str, Any]:
    """A `response`."""
    output: list[dict[str, Any]] = []
    if reply.reasoning:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        output.append({"type": "reasoning", "id": f"rs_{serial:08d}", "summary": summary})
    if reply.text or not reply.tool_calls:
        output.append(_message(reply.text, serial))
    output += [_function_call(call, serial, at) for at, call in enumerate(reply.tool_calls)]
    return {
        "id": f"resp_{serial:08d}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": _usage(usage),
    }


def events(response: Mapping[str, Any], include_usage: bool) -> Iterator[bytes]:  # noqa: FBT001 - one of three alike
    """The events of a `response`. Usage is always told in this dialect, so `include_usage` changes nothing."""
    del include_usage
    numbers = count()
    for event in _events(response):
        yield named_event({**event, "sequence_number": next(numbers)})


def _events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        yield from _item_events(index, item)
    yield {"type": _ENDINGS.get(response.get("status", ""), "response.completed"), "response": response}


def _item_events(index: int, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    where = {"item_id": item.get("id", ""), "output_index": index}
    kind = item["type"]
    begun = dict(item)
    if "status" in item:
        begun["status"] = "in_progress"
    if kind == "message":
        begun["content"] = []
    elif kind == "function_call":
        begun["arguments"] = ""
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    if kind == "message":
        for at, part in enumerate(item["content"]):
            yield from _part_events({**where, "content_index": at}, part)
    elif kind == "function_call":
        name, text = "response.function_call_arguments", item["arguments"]
        yield from ({"type": f"{name}.delta", **where, "delta": piece} for piece in pieces(text))
        yield {"type": f"{name}.done", **where, "name": item["name"], "arguments": text}
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _part_events(where: Mapping[str, Any], part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    name = _TEXT_PARTS.get(part["type"])
    field = "text" if part["type"] == "output_text" else "refusal"
    extra = {"logprobs": part.get("logprobs") or []} if field == "text" else {}
    begun = {**part, field: ""} if name else part
    yield {"type": "response.content_part.added", **where, "part": begun}
    if name:
        for piece in pieces(part[field]):
            yield {"type": f"{name}.delta", **where, "delta": piece, **({"logprobs": []} if extra else {})}
        yield {"type": f"{name}.done", **where, field: part[field], **extra}
    yield {"type": "response.content_part.done", **where, "part": part}


def _message(text: str, serial: int) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": "message",
        "id": f"msg_{serial:08d}",
        "status": "completed",
        "role": "assistant",
        "content": [part],
    }


def _function_call(call: ToolCall, serial: int, at: int) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": f"fc_{serial:08d}_{at}",
        "call_id": call.id or f"call_{serial:08d}_{at}",
        "name": call.name,
        "arguments": call.arguments,
        "status": "completed",
    }


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
