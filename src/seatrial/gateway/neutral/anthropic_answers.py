"""Answers of Anthropic's messages API, whole or as a stream: read into neutral words and written from them."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.gateway.base import SseEvent, TokenCounts
from seatrial.gateway.fields import Payload, as_usage, counted, is_count, with_cache_writes
from seatrial.gateway.neutral.anthropic_requests import read_call
from seatrial.gateway.neutral.checks import arguments_answered, need_text, pieces, read_failure, says_nothing, tables
from seatrial.gateway.neutral.types import (
    Answer,
    CallDelta,
    CallStarted,
    Delta,
    Ended,
    SignatureDelta,
    Started,
    Stop,
    TextDelta,
    Untranslatable,
)
from seatrial.messages import Item, Message, Reasoning, Refusal, ToolCall
from seatrial.model.trace import TokenUsage
from seatrial.untrusted.json import dump, mapping, parse_object, text, whole_number

_STOPS: dict[str, Stop] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


def read_content(response: Payload) -> tuple[list[Item], Stop]:
    blocks = [_read_block(*found) for found in tables(response.get("content"), "content")]
    return [item for item in blocks if item is not None], _stop(response)


def _read_block(block: Payload, where: str) -> Item | None:
    kind = block.get("type")
    if kind == "text":
        return Message("assistant", (need_text(block.get("text"), f"{where}.text"),))
    if kind == "thinking":
        return Reasoning(text(block.get("thinking")) or "", text(block.get("signature")))
    if kind == "tool_use":
        return read_call(block, where)
    if kind == "redacted_thinking":  # encrypted; only Anthropic can read it
        return None
    raise Untranslatable(f"{where}.type", f"there is no place for blocks of the type {kind!r}")


def _stop(message: Payload) -> Stop:
    return _STOPS.get(str(message.get("stop_reason")), "stop")


class AnthropicReader:
    """A stream. The protocol numbers all blocks in one row, so tool calls are counted anew among themselves."""

    def __init__(self) -> None:
        self._slots: dict[Any, int] = {}
        self._usage: Payload = {}
        self._stop: Stop = "stop"

    def read(self, event: SseEvent) -> list[Delta]:
        parsed = parse_object(event.data) or {}
        kind = parsed.get("type")
        if kind == "content_block_delta":
            return self._read_delta(whole_number(parsed.get("index")), mapping(parsed.get("delta")))
        if kind == "content_block_start":
            return self._read_block(whole_number(parsed.get("index")), mapping(parsed.get("content_block")))
        if kind == "message_start":
            message = mapping(parsed.get("message"))
            self._count(message.get("usage"))
            return [Started(text(message.get("id")) or "", text(message.get("model")) or "")]
        if kind == "message_delta":
            self._count(parsed.get("usage"))
            self._stop = _stop(mapping(parsed.get("delta")))
        if kind == "message_stop":
            return [Ended(self._stop, as_usage(counts({"usage": self._usage})))]
        return read_failure(parsed) if kind == "error" else []

    def _count(self, usage: Any) -> None:
        """Tokens read are told at the start and tokens written at the end; each count is a total up to there."""
        self._usage.update({name: value for name, value in mapping(usage).items() if value is not None})

    def _read_block(self, index: int | None, block: Payload) -> list[Delta]:
        kind = block.get("type")
        if kind == "tool_use":
            slot = self._slots[index] = len(self._slots)
            deltas: list[Delta] = [CallStarted(slot, text(block.get("id")) or "", text(block.get("name")) or "")]
            # The protocol starts a call with an empty input; servers that imitate it may send the whole of it here.
            return [*deltas, CallDelta(slot, dump(block["input"]))] if block.get("input") else deltas
        if kind == "text" and (said := text(block.get("text"))):
            return [TextDelta("text", said)]
        if kind in ("text", "thinking", "redacted_thinking"):
            return []
        raise Untranslatable("content_block.type", f"there is no place for blocks of the type {kind!r}")

    def _read_delta(self, index: int | None, delta: Payload) -> list[Delta]:
        if said := text(delta.get("text")):
            return [TextDelta("text", said)]
        if thought := text(delta.get("thinking")):
            return [TextDelta("reasoning", thought)]
        if signature := text(delta.get("signature")):
            return [SignatureDelta(signature)]
        if (arguments := text(delta.get("partial_json"))) and index in self._slots:
            return [CallDelta(self._slots[index], arguments)]
        return []

    def close(self) -> list[Delta]:
        """Nothing: this protocol always says the end itself, by `message_stop`."""
        return []


def counts(response: Any) -> TokenCounts | None:
    """What an answer consumed. Tokens read from or written to the cache come on top of its `input_tokens`."""
    found = mapping(mapping(response).get("usage"))
    if not found:
        return None
    cached, stored = found.get("cache_read_input_tokens") or 0, found.get("cache_creation_input_tokens") or 0
    read = (found.get("input_tokens"), cached, stored)
    counts = counted(
        sum(read) if all(map(is_count, read)) else None,
        cached,
        found.get("output_tokens"),
        mapping(found.get("output_tokens_details")).get("thinking_tokens"),
    )
    return with_cache_writes(counts, stored, mapping(found.get("cache_creation")).get("ephemeral_1h_input_tokens"))


# Writing: a whole answer, one that grows, and a whole one cut into a stream.

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
    content = [_block(item, answer.stop) for item in answer.items if not says_nothing(item)]
    refused = any(isinstance(item, Refusal) for item in answer.items)
    return {
        **_message(answer),
        "content": content,
        **_ending(answer.stop, refused=refused),
        "usage": _usage(answer.usage),
    }


def _block(item: Item, stop: Stop) -> Payload:
    if isinstance(item, Message | Refusal):
        return {"type": "text", "text": item.text}
    if isinstance(item, Reasoning):
        return {"type": "thinking", "thinking": item.text, "signature": item.signature or ""}
    if isinstance(item, ToolCall):
        return {**_call(item.id, item.name), "input": arguments_answered(item, stop)}
    raise Untranslatable("tool results", "they are no part of an answer")


class AnthropicWriter:
    """A stream. The protocol has one block open at a time; text, thinking and each tool call are blocks."""

    def __init__(self) -> None:
        self._count = 0
        self._open: str | None = None  # what the last block holds, while it is open
        self._blocks: dict[int, int] = {}  # of each tool call
        self._refused = False

    def write(self, delta: Delta) -> list[SseEvent]:
        if isinstance(delta, TextDelta):
            return self._grow(delta)
        if isinstance(delta, CallDelta):
            return [_grown(self._blocks.get(delta.slot, self._count - 1), "input_json_delta", partial_json=delta.text)]
        if isinstance(delta, CallStarted):
            self._blocks[delta.slot] = self._count
            return self._start("call", _call(delta.id, delta.name))
        if isinstance(delta, Started):
            return [_message_start({**_message(delta), "usage": _usage(None)})]
        if isinstance(delta, SignatureDelta):
            return self._sign(delta)
        return self._end(delta) if isinstance(delta, Ended) else []

    def _grow(self, grown: TextDelta) -> list[SseEvent]:
        self._refused = self._refused or grown.kind == "refusal"
        kind = "thinking" if grown.kind == "reasoning" else "text"
        events = [] if self._open == grown.kind else self._start(grown.kind, {"type": kind})
        return [*events, _grown(self._count - 1, f"{kind}_delta", **{kind: grown.text})]

    def _sign(self, signed: SignatureDelta) -> list[SseEvent]:
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


def split_answer(message: Mapping[str, Any]) -> Iterator[SseEvent]:
    """The events of a `message`, blocks of any type included."""
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
