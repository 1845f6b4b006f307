"""Answers of Anthropic's messages API: whole, as a stream that grows, and a whole one cut into a stream."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.neutral.checks import MALFORMED, arguments_object
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
    Item,
    Reasoned,
    Refused,
    Said,
    Signed,
    Started,
    Stop,
    Untranslatable,
    joined,
)
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import TokenUsage

_STOP_REASONS: dict[Stop, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
_EMPTY: Mapping[str, Payload] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
"""What a block that streams has in it when it starts. Blocks of other types come whole."""

_TOLD_AT_THE_END = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def write_answer(answer: Answer) -> Payload:
    """A `message`. Raises Untranslatable for what is no part of an answer."""
    content = [_block(item, answer.stop) for item in answer.items if not _says_nothing(item)]
    refused = any(isinstance(item, Refused) for item in answer.items)
    return {
        **_message(answer),
        "content": content,
        **_ending(answer.stop, refused=refused),
        "usage": _usage(answer.usage),
    }


def _says_nothing(item: Item) -> bool:
    """Whether it is empty text: the API refuses such a block when the agent hands it back."""
    return isinstance(item, Said) and not joined((item,), Said)


def _block(item: Item, stop: Stop) -> Payload:
    if isinstance(item, Said | Refused):
        return {"type": "text", "text": joined((item,), type(item))}
    if isinstance(item, Reasoned):
        return {"type": "thinking", "thinking": item.text, "signature": item.signature or ""}
    if isinstance(item, Called):
        return {**_call(item.id, item.name), "input": _input(item, stop)}
    raise Untranslatable("tool results", "they are no part of an answer")


def _input(call: Called, stop: Stop) -> Payload:
    """Its arguments, as the object that this protocol has for them.

    A model may write anything there, which is for the agent to deal with: a stream would carry it too. So it is handed
    over as it is, and a trial cannot become void by it.
    """
    try:
        return arguments_object(call.arguments, f"arguments of {call.name}")
    except Untranslatable:
        # cut in the middle of its arguments, as Anthropic's own models are
        return {} if stop == "length" else {MALFORMED: call.arguments}


class AnthropicWriter:
    """A stream. The protocol has one block open at a time; text, thinking and each tool call are blocks."""

    def __init__(self) -> None:
        self._count = 0
        self._open: str | None = None  # what the last block holds, while it is open
        self._blocks: dict[int, int] = {}  # of each tool call
        self._refused = False

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        if isinstance(delta, Grown):
            return self._grow(delta)
        if isinstance(delta, CallGrown):
            return [_grown(self._blocks.get(delta.slot, self._count - 1), "input_json_delta", partial_json=delta.text)]
        if isinstance(delta, CallStarted):
            self._blocks[delta.slot] = self._count
            return self._start("call", _call(delta.id, delta.name))
        if isinstance(delta, Started):
            return [_message_start({**_message(delta), "usage": _usage(None)})]
        if isinstance(delta, Signed):
            return self._sign(delta)
        return self._end(delta) if isinstance(delta, Ended) else write_failure("anthropic", delta)

    def _grow(self, grown: Grown) -> list[SseEvent]:
        self._refused = self._refused or grown.kind == "refusal"
        kind = "thinking" if grown.kind == "reasoning" else "text"
        events = [] if self._open == grown.kind else self._start(grown.kind, {"type": kind})
        return [*events, _grown(self._count - 1, f"{kind}_delta", **{kind: grown.text})]

    def _sign(self, signed: Signed) -> list[SseEvent]:
        """Of a thought that was not shown there is only this."""
        events = [] if self._open == "reasoning" else self._start("reasoning", {"type": "thinking"})
        return [*events, _grown(self._count - 1, "signature_delta", signature=signed.signature)]

    def _start(self, kind: str, block: Payload) -> list[SseEvent]:
        events = self._stop()
        self._open = kind
        self._count += 1
        return [*events, _block_start(self._count - 1, block)]

    def _stop(self) -> list[SseEvent]:
        was_open, self._open = self._open, None
        return [_block_stop(self._count - 1)] if was_open else []

    def _end(self, ended: Ended) -> list[SseEvent]:
        return [*self._stop(), *_message_end(_ending(ended.stop, refused=self._refused), _usage(ended.usage))]


def split_answer(message: Mapping[str, Any], *, include_usage: bool) -> Iterator[SseEvent]:
    """The events of a `message`, blocks of any type included. Usage is always told, so `include_usage` is unheeded."""
    del include_usage
    usage = message["usage"]
    yield _message_start({**message, "usage": {**usage, "output_tokens": 1}})  # the first token is counted already
    for index, block in enumerate(message["content"]):
        yield _block_start(index, block)
        yield from _block_deltas(index, block)
        yield _block_stop(index)
    ending = {key: message[key] for key in ("stop_reason", "stop_sequence", "stop_details") if key in message}
    yield from _message_end(ending, {key: usage[key] for key in _TOLD_AT_THE_END if key in usage})


def _block_deltas(index: int, block: Payload) -> Iterator[SseEvent]:
    kind = block["type"]
    if kind in ("text", "thinking"):
        yield from (_grown(index, f"{kind}_delta", **{kind: piece}) for piece in pieces(block[kind]))
    if kind == "thinking":
        yield _grown(index, "signature_delta", signature=block.get("signature", ""))
    if kind == "tool_use":
        # The empty first piece is the provider's own habit; clients start their buffers on it.
        for piece in ("", *pieces(dump(block["input"]))):
            yield _grown(index, "input_json_delta", partial_json=piece)


def _message(answer: Answer | Started) -> Payload:
    return {"id": answer.id, "type": "message", "role": "assistant", "model": answer.model}


def _call(call_id: str, name: str) -> Payload:
    return {"type": "tool_use", "id": call_id, "name": name}


def _ending(stop: Stop, *, refused: bool) -> Payload:
    return {"stop_reason": "refusal" if refused else _STOP_REASONS[stop], "stop_sequence": None}


def _message_start(message: Payload) -> SseEvent:
    return _named("message_start", message={**message, "content": [], "stop_reason": None, "stop_sequence": None})


def _block_start(index: int, block: Payload) -> SseEvent:
    return _named("content_block_start", index=index, content_block={**block, **_EMPTY.get(block["type"], {})})


def _grown(index: int, kind: str, **fields: str) -> SseEvent:
    return _named("content_block_delta", index=index, delta={"type": kind, **fields})


def _block_stop(index: int) -> SseEvent:
    return _named("content_block_stop", index=index)


def _message_end(ending: Payload, usage: Payload) -> list[SseEvent]:
    return [_named("message_delta", delta=ending, usage=usage), _named("message_stop")]


def _named(kind: str, **fields: Any) -> SseEvent:
    """An event. The SDKs go by its name, and by the type in its data where a proxy has lost the name."""
    return SseEvent(kind, dump({"type": kind, **fields}))


def _usage(usage: TokenUsage | None) -> Payload:
    """What was consumed. The protocol demands these counts, and it counts cached tokens apart from the others."""
    found = usage or TokenUsage()
    thought = {"output_tokens_details": {"thinking_tokens": found.reasoning_tokens}} if found.reasoning_tokens else {}
    return {
        "input_tokens": max(found.input_tokens - found.cached_tokens - found.cache_write_tokens, 0),
        "cache_creation_input_tokens": found.cache_write_tokens,
        "cache_read_input_tokens": found.cached_tokens,
        "output_tokens": found.output_tokens,
        **thought,
    }
