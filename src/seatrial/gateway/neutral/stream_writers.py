"""Streams of chat completions and of Anthropic's messages, written delta by delta."""

from typing import Any, Protocol

from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.neutral.answers_written import ANTHROPIC_WORDS, anthropic_usage, chat_usage
from seatrial.gateway.neutral.types import CallGrown, CallStarted, Delta, Ended, Failed, Grown, Started
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect

_STATUSES = {"overloaded_error": 529, "rate_limit_error": 429, "rate_limit_exceeded": 429}
_CHAT_FIELDS = {"text": "content", "reasoning": "reasoning_content", "refusal": "refusal"}


class StreamWriter(Protocol):
    """Writes one stream."""

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        ...


def error_events(dialect: Dialect, failed: Failed) -> list[SseEvent]:
    """A provider's error in the words of this dialect."""
    return [DIALECTS[dialect].error_event(_STATUSES.get(failed.type, 500), "provider", failed.message)]


class ChatWriter:
    """Chat completions. The count of tokens is always written; `hides` takes it out when nobody asked for it."""

    def __init__(self) -> None:
        self._head: Payload = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": ""}

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        if isinstance(delta, Grown):
            return [self._chunk({_CHAT_FIELDS[delta.kind]: delta.text})]
        if isinstance(delta, CallGrown):
            return [self._chunk({"tool_calls": [{"index": delta.slot, "function": {"arguments": delta.text}}]})]
        if isinstance(delta, CallStarted):
            function = {"name": delta.name, "arguments": ""}
            call = {"index": delta.slot, "id": delta.id, "type": "function", "function": function}
            return [self._chunk({"tool_calls": [call]})]
        if isinstance(delta, Started):
            self._head.update(id=delta.id, model=delta.model, created=delta.created)
            return [self._chunk({"role": "assistant", "content": ""})]
        return self._end(delta) if isinstance(delta, Ended) else error_events("openai_chat", delta)

    def _end(self, ended: Ended) -> list[SseEvent]:
        events = [self._chunk({}, ended.stop)]
        if ended.usage:
            events.append(SseEvent(None, dump({**self._head, "choices": [], "usage": chat_usage(ended.usage)})))
        return [*events, SseEvent(None, "[DONE]")]

    def _chunk(self, delta: Payload, finish: str | None = None) -> SseEvent:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return SseEvent(None, dump({**self._head, "choices": [choice]}))


class AnthropicWriter:
    """Messages: text, thinking and each tool call are blocks, one after the other."""

    def __init__(self) -> None:
        self._count = 0
        self._open: str | None = None  # the kind of the last block while it is open
        self._blocks: dict[int, int] = {}  # of each tool call
        self._refused = False

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        if isinstance(delta, Grown):
            return self._grow(delta)
        if isinstance(delta, CallGrown):
            block = {"type": "input_json_delta", "partial_json": delta.text}
            return [_named("content_block_delta", index=self._blocks.get(delta.slot, self._count - 1), delta=block)]
        if isinstance(delta, CallStarted):
            self._blocks[delta.slot] = self._count
            return self._start("tool_use", {"type": "tool_use", "id": delta.id, "name": delta.name, "input": {}})
        if isinstance(delta, Started):
            message = {"id": delta.id, "type": "message", "role": "assistant", "model": delta.model, "content": []}
            rest = {"stop_reason": None, "stop_sequence": None, "usage": anthropic_usage(None)}
            return [_named("message_start", message={**message, **rest})]
        return self._end(delta) if isinstance(delta, Ended) else error_events("anthropic", delta)

    def _grow(self, grown: Grown) -> list[SseEvent]:
        self._refused = self._refused or grown.kind == "refusal"
        kind = "thinking" if grown.kind == "reasoning" else "text"
        events: list[SseEvent] = []
        if self._open != kind:
            extra = {"signature": ""} if kind == "thinking" else {}
            events = self._start(kind, {"type": kind, kind: "", **extra})
        delta = {"type": f"{kind}_delta", kind: grown.text}
        return [*events, _named("content_block_delta", index=self._count - 1, delta=delta)]

    def _start(self, kind: str, block: Payload) -> list[SseEvent]:
        events = self._stop()
        self._open = kind
        self._count += 1
        return [*events, _named("content_block_start", index=self._count - 1, content_block=block)]

    def _stop(self) -> list[SseEvent]:
        was_open, self._open = self._open, None
        return [_named("content_block_stop", index=self._count - 1)] if was_open else []

    def _end(self, ended: Ended) -> list[SseEvent]:
        reason = "refusal" if self._refused else ANTHROPIC_WORDS[ended.stop]
        delta = {"stop_reason": reason, "stop_sequence": None}
        usage = anthropic_usage(ended.usage)
        return [*self._stop(), _named("message_delta", delta=delta, usage=usage), _named("message_stop")]


def _named(kind: str, **fields: Any) -> SseEvent:
    return SseEvent(kind, dump({"type": kind, **fields}))
