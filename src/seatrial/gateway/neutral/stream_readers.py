"""Streams of each dialect, read event by event into neutral deltas."""

from typing import Any, Literal, Protocol

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import count, dump, items, number, parse_object, table, text, told_error
from seatrial.gateway.dialects.openai_chat_stream import CallSlots
from seatrial.gateway.neutral.answers import ANTHROPIC_STOPS, RESPONSES_STOPS, chat_stop, int_of
from seatrial.gateway.neutral.types import (
    CallGrown,
    CallStarted,
    Delta,
    Ended,
    Failed,
    Grown,
    Started,
    Stop,
    Untranslatable,
)
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect

_GROWN: dict[Any, Literal["text", "reasoning", "refusal"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}


class StreamReader(Protocol):
    """Reads one stream."""

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says. Raises Untranslatable for content without a neutral word."""
        ...

    def close(self) -> list[Delta]:
        """What is still to be said when the stream is over; nothing when it was cut."""
        ...


def _failed(parsed: Any) -> list[Delta]:
    told = told_error(parsed)
    return [Failed(told.type, told.message)] if told else []


class ChatReader:
    """Chat completions: the reason to stop and the count of tokens come apart, so the end waits for both."""

    def __init__(self) -> None:
        self._started = False
        self._slots = CallSlots()
        self._stop: Stop | None = None
        self._answer: Payload = {}

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says."""
        if event.data.startswith("[DONE]"):
            return self.close()
        chunk = parse_object(event.data)
        if chunk is None:
            return []
        if chunk.get("error"):
            return _failed(chunk)
        deltas: list[Delta] = []
        if not self._started:
            self._started = True
            deltas.append(
                Started(text(chunk.get("id")) or "", text(chunk.get("model")) or "", count(chunk.get("created")))
            )
        if isinstance(chunk.get("usage"), dict):
            self._answer = chunk
        for choice in items(chunk.get("choices")):
            deltas.extend(self._read_choice(table(choice)))
        return deltas

    def _read_choice(self, choice: Payload) -> list[Delta]:
        if choice.get("index"):
            raise Untranslatable("choices", "there have to be one")
        delta = table(choice.get("delta"))
        deltas: list[Delta] = []
        if thought := text(delta.get("reasoning_content")) or text(delta.get("reasoning")):
            deltas.append(Grown("reasoning", thought))
        if said := text(delta.get("content")):
            deltas.append(Grown("text", said))
        if refusal := text(delta.get("refusal")):
            deltas.append(Grown("refusal", refusal))
        for fragment in items(delta.get("tool_calls")):
            deltas.extend(self._read_call(table(fragment)))
        if reason := choice.get("finish_reason"):
            self._stop = chat_stop(reason)
        return deltas

    def _read_call(self, fragment: Payload) -> list[Delta]:
        slot, new = self._slots.find(fragment)
        function = table(fragment.get("function"))
        deltas: list[Delta] = []
        if new:
            deltas.append(
                CallStarted(slot, text(fragment.get("id")) or f"call_{slot}", text(function.get("name")) or "")
            )
        if arguments := text(function.get("arguments")):
            deltas.append(CallGrown(slot, arguments))
        return deltas

    def close(self) -> list[Delta]:
        """The end, once."""
        if self._stop is None:
            return []
        ended = Ended(self._stop, usage_of("openai_chat", self._answer))
        self._stop = None
        return [ended]


class AnthropicReader:
    """Messages: tool calls are blocks among others, so their indexes are counted anew."""

    def __init__(self) -> None:
        self._slots: dict[Any, int] = {}
        self._usage: Payload = {}
        self._stop: Stop = "stop"

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says."""
        parsed = parse_object(event.data) or {}
        kind = parsed.get("type")
        if kind == "content_block_delta":
            return self._read_delta(number(parsed.get("index")), table(parsed.get("delta")))
        if kind == "content_block_start":
            return self._read_block(number(parsed.get("index")), table(parsed.get("content_block")))
        if kind == "message_start":
            message = table(parsed.get("message"))
            self._usage.update(table(message.get("usage")))
            return [Started(text(message.get("id")) or "", text(message.get("model")) or "")]
        if kind == "message_delta":
            counted = table(parsed.get("usage")).items()
            self._usage.update({name: value for name, value in counted if value is not None})
            self._stop = ANTHROPIC_STOPS.get(str(table(parsed.get("delta")).get("stop_reason")), "stop")
        if kind == "message_stop":
            return [Ended(self._stop, usage_of("anthropic", {"usage": self._usage}))]
        return _failed(parsed) if kind == "error" else []

    def _read_block(self, index: int | None, block: Payload) -> list[Delta]:
        kind = block.get("type")
        if kind == "tool_use":
            slot = self._slots[index] = len(self._slots)
            deltas: list[Delta] = [CallStarted(slot, text(block.get("id")) or "", text(block.get("name")) or "")]
            return [*deltas, CallGrown(slot, dump(block["input"]))] if block.get("input") else deltas
        if kind == "text" and (said := text(block.get("text"))):
            return [Grown("text", said)]
        if kind in ("text", "thinking", "redacted_thinking"):
            return []
        raise Untranslatable("content_block.type", f"there is no place for blocks of the type {kind!r}")

    def _read_delta(self, index: int | None, delta: Payload) -> list[Delta]:
        if said := text(delta.get("text")):
            return [Grown("text", said)]
        if thought := text(delta.get("thinking")):
            return [Grown("reasoning", thought)]
        if (arguments := text(delta.get("partial_json"))) and index in self._slots:
            return [CallGrown(self._slots[index], arguments)]
        return []

    def close(self) -> list[Delta]:
        """Nothing: the end is always said."""
        return []


class ResponsesReader:
    """Responses: deltas of many kinds, and a last event that says how it ended."""

    def __init__(self) -> None:
        self._slots: dict[Any, int] = {}

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says."""
        parsed = parse_object(event.data) or {}
        kind = parsed.get("type")
        if isinstance(kind, str) and kind in _GROWN:
            delta = text(parsed.get("delta"))
            return [Grown(_GROWN[kind], delta)] if delta else []
        if kind == "response.function_call_arguments.delta":
            slot, delta = self._slots.get(number(parsed.get("output_index"))), text(parsed.get("delta"))
            return [CallGrown(slot, delta)] if delta and slot is not None else []
        if kind == "response.output_item.added":
            return self._read_item(number(parsed.get("output_index")), table(parsed.get("item")))
        response = table(parsed.get("response"))
        if kind == "response.created":
            created = int_of(response.get("created_at"))
            return [Started(text(response.get("id")) or "", text(response.get("model")) or "", created)]
        if kind in ("response.completed", "response.incomplete"):
            reason = str(table(response.get("incomplete_details")).get("reason"))
            stop = RESPONSES_STOPS.get(reason, "tool_calls" if self._slots else "stop")
            return [Ended(stop, usage_of("openai_responses", response))]
        return _failed(response if kind == "response.failed" else parsed)

    def _read_item(self, index: int | None, item: Payload) -> list[Delta]:
        kind = item.get("type")
        if kind == "function_call":
            slot = self._slots[index] = len(self._slots)
            return [CallStarted(slot, text(item.get("call_id")) or "", text(item.get("name")) or "")]
        if kind in ("message", "reasoning"):
            return []
        raise Untranslatable("item.type", f"there is no place for items of the type {kind!r}")

    def close(self) -> list[Delta]:
        """Nothing: the end is always said."""
        return []


READERS: dict[Dialect, type[ChatReader] | type[ResponsesReader] | type[AnthropicReader]] = {
    "openai_chat": ChatReader,
    "openai_responses": ResponsesReader,
    "anthropic": AnthropicReader,
}
