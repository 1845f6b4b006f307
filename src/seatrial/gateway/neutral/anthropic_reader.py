"""Answers of Anthropic's messages API, whole or as a stream, read into neutral words."""

from typing import Any

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump, number, parse_object, table, text
from seatrial.gateway.neutral.checks import arguments_text, need_table, need_text, tables
from seatrial.gateway.neutral.failures import read_failure
from seatrial.gateway.neutral.types import (
    Called,
    CallGrown,
    CallStarted,
    Delta,
    Ended,
    Grown,
    Item,
    Reasoned,
    Said,
    Signed,
    Started,
    Stop,
    Text,
    Untranslatable,
)
from seatrial.gateway.sse import SseEvent

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
    """What a whole answer says and why it ends. Raises Untranslatable."""
    blocks = [_read_block(*found) for found in tables(response.get("content"), "content")]
    return [item for item in blocks if item is not None], _stop(response)


def _read_block(block: Payload, where: str) -> Item | None:
    kind = block.get("type")
    if kind == "text":
        return Said("assistant", (Text(need_text(block.get("text"), f"{where}.text")),))
    if kind == "thinking":
        return Reasoned(text(block.get("thinking")) or "", text(block.get("signature")))
    if kind == "tool_use":
        given = need_table(block.get("input"), f"{where}.input")
        call_id, name = (need_text(block.get(field), f"{where}.{field}") for field in ("id", "name"))
        return Called(call_id, name, arguments_text(given, f"{where}.input"))
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
        """What an event says."""
        parsed = parse_object(event.data) or {}
        kind = parsed.get("type")
        if kind == "content_block_delta":
            return self._read_delta(number(parsed.get("index")), table(parsed.get("delta")))
        if kind == "content_block_start":
            return self._read_block(number(parsed.get("index")), table(parsed.get("content_block")))
        if kind == "message_start":
            message = table(parsed.get("message"))
            self._count(message.get("usage"))
            return [Started(text(message.get("id")) or "", text(message.get("model")) or "")]
        if kind == "message_delta":
            self._count(parsed.get("usage"))
            self._stop = _stop(table(parsed.get("delta")))
        if kind == "message_stop":
            return [Ended(self._stop, usage_of("anthropic", {"usage": self._usage}))]
        return read_failure(parsed) if kind == "error" else []

    def _count(self, usage: Any) -> None:
        """Tokens read are told at the start and tokens written at the end; each count is a total up to there."""
        self._usage.update({name: value for name, value in table(usage).items() if value is not None})

    def _read_block(self, index: int | None, block: Payload) -> list[Delta]:
        kind = block.get("type")
        if kind == "tool_use":
            slot = self._slots[index] = len(self._slots)
            deltas: list[Delta] = [CallStarted(slot, text(block.get("id")) or "", text(block.get("name")) or "")]
            # The protocol starts a call with an empty input; servers that imitate it may send the whole of it here.
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
        if signature := text(delta.get("signature")):
            return [Signed(signature)]
        if (arguments := text(delta.get("partial_json"))) and index in self._slots:
            return [CallGrown(self._slots[index], arguments)]
        return []

    def close(self) -> list[Delta]:
        """Nothing: this protocol always says the end itself, by `message_stop`."""
        return []
