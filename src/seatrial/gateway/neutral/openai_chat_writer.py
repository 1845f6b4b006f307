"""Answers of OpenAI's chat completions: whole, as a stream that grows, and a whole one cut into a stream."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.neutral.failures import write_failure
from seatrial.gateway.neutral.pieces import pieces
from seatrial.gateway.neutral.types import (
    Answer,
    Called,
    CallGrown,
    CallStarted,
    Delta,
    Ended,
    Grown,
    Reasoned,
    Refused,
    Said,
    Signed,
    Started,
    joined,
)
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import TokenUsage

_FIELDS = {"reasoning": "reasoning_content", "text": "content", "refusal": "refusal"}
_SPLIT = (_FIELDS["reasoning"], "reasoning", _FIELDS["text"], _FIELDS["refusal"])
"""Fields of a message that stream as text, piece by piece, in the order in which they come."""

_DONE = SseEvent(None, "[DONE]")  # clients read on until this mark, which is no JSON


def write_answer(answer: Answer) -> Payload:
    """A `chat.completion`. It has one message, in which text and tool calls have no order between them."""
    calls = [_call(item) for item in answer.items if isinstance(item, Called)]
    said = any(isinstance(item, Said) for item in answer.items)
    message: Payload = {"role": "assistant", "content": joined(answer.items, Said) if said else None}
    message["refusal"] = joined(answer.items, Refused) or None
    if thought := joined(answer.items, Reasoned):
        message[_FIELDS["reasoning"]] = thought
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.stop}
    usage = _usage(answer.usage) if answer.usage else None
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": usage}


class ChatWriter:
    """A stream. The count of tokens is always written; `hides` takes it out when nobody asked for it."""

    def __init__(self) -> None:
        self._head = _head(Started("", ""), "chat.completion.chunk")

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        if isinstance(delta, Grown):
            return [self._chunk({_FIELDS[delta.kind]: delta.text})]
        if isinstance(delta, CallGrown):
            return [self._chunk(_more_arguments(delta.slot, delta.text))]
        if isinstance(delta, CallStarted):
            return [self._chunk(_call_begun(delta.slot, _call(Called(delta.id, delta.name, ""))))]
        if isinstance(delta, Started):
            self._head = _head(delta, "chat.completion.chunk")
            return [self._chunk({"role": "assistant", "content": ""})]
        if isinstance(delta, Signed):
            return []
        return self._end(delta) if isinstance(delta, Ended) else write_failure("openai_chat", delta)

    def _end(self, ended: Ended) -> list[SseEvent]:
        counted = [_usage_chunk(self._head, _usage(ended.usage))] if ended.usage else []
        return [self._chunk({}, ended.stop), *counted, _DONE]

    def _chunk(self, delta: Payload, finish: str | None = None) -> SseEvent:
        return _chunk(self._head, {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish})


def split_answer(response: Mapping[str, Any], *, include_usage: bool) -> Iterator[SseEvent]:
    """The chunks of a `chat.completion`, fields of other servers included; usage comes only if it was asked for."""
    head = {key: value for key, value in response.items() if key not in {"choices", "usage"}}
    head["object"] = "chat.completion.chunk"
    for choice in response["choices"]:
        for delta in _deltas(choice["message"]):
            yield _chunk(head, {"index": choice["index"], "delta": delta, "finish_reason": None})
        rest = {key: value for key, value in choice.items() if key != "message"}
        yield _chunk(head, {**rest, "delta": {}})
    if include_usage:
        yield _usage_chunk(head, response.get("usage"))
    yield _DONE


def _deltas(message: Mapping[str, Any]) -> Iterator[Payload]:
    whole = {key: value for key, value in message.items() if key not in _SPLIT and key != "tool_calls"}
    yield {**whole, "content": "" if message.get("content") is not None else None}
    for field in _SPLIT:
        value = message.get(field)
        if isinstance(value, str):
            yield from ({field: piece} for piece in pieces(value))
        elif value is not None:
            yield {field: value}
    for slot, call in enumerate(message.get("tool_calls") or []):
        yield _call_begun(slot, call)
        yield from (
            _more_arguments(slot, piece) for piece in pieces((call.get("function") or {}).get("arguments") or "")
        )


def _head(answer: Answer | Started, kind: str) -> Payload:
    return {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}


def _call(call: Called) -> Payload:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _call_begun(slot: int, call: Payload) -> Payload:
    """The first delta of a call; of kinds other than functions, which nobody cuts, it is the only one."""
    function = {"function": {**call["function"], "arguments": ""}} if call.get("function") is not None else {}
    return {"tool_calls": [{"index": slot, **call, **function}]}


def _more_arguments(slot: int, text: str) -> Payload:
    return {"tool_calls": [{"index": slot, "function": {"arguments": text}}]}


def _chunk(head: Payload, choice: Payload) -> SseEvent:
    return SseEvent(None, dump({**head, "choices": [choice]}))


def _usage_chunk(head: Payload, usage: Any) -> SseEvent:
    """Usage comes in a chunk of its own, after the last choice, and that chunk has no choices."""
    return SseEvent(None, dump({**head, "choices": [], "usage": usage}))


def _usage(usage: TokenUsage) -> Payload:
    stored = {"cache_write_tokens": usage.cache_write_tokens} if usage.cache_write_tokens else {}
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, **stored},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
