"""Answers of OpenAI's responses API, whole or as a stream, read into neutral words."""

from typing import Any, Literal

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import items, number, parse_object, table, text
from seatrial.gateway.neutral.checks import need_text, seconds, tables
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
    Refused,
    Said,
    Signed,
    Started,
    Stop,
    Text,
    Untranslatable,
)
from seatrial.gateway.sse import SseEvent

_CALL_KEYS = ("call_id", "name", "arguments")
_STOPS: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_GROWN: dict[Any, Literal["text", "reasoning", "refusal"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}


def read_content(response: Payload) -> tuple[list[Item], Stop]:
    """What a whole answer says and why it ends. Raises Untranslatable."""
    said: list[Item] = []
    for item, where in tables(response.get("output"), "output"):
        said.extend(_read_output(item, where))
    return said, _stop(response, "tool_calls" if any(isinstance(item, Called) for item in said) else "stop")


def _stop(response: Payload, otherwise: Stop) -> Stop:
    """Why the answer ends. The protocol has a reason only for incomplete ones; of others the output itself tells."""
    return _STOPS.get(str(table(response.get("incomplete_details")).get("reason")), otherwise)


def _read_output(item: Payload, where: str) -> list[Item]:
    kind = item.get("type")
    if kind == "message":
        return [_read_part(*found) for found in tables(item.get("content"), f"{where}.content")]
    if kind == "function_call":
        call_id, name, arguments = (need_text(item.get(key), f"{where}.{key}") for key in _CALL_KEYS)
        return [Called(call_id, name, arguments)]
    if kind == "reasoning":
        parts = [table(part) for part in [*items(item.get("content")), *items(item.get("summary"))]]
        return [Reasoned("".join(text(part.get("text")) or "" for part in parts), signature_of(item))]
    raise Untranslatable(f"{where}.type", f"there is no place for items of the type {kind!r}")


def signature_of(item: Payload) -> str | None:
    """What the provider wants back of a thought. It knows that only together with the id of the thought."""
    encrypted = text(item.get("encrypted_content")) if item.get("type") == "reasoning" else None
    return f"{text(item.get('id')) or ''} {encrypted}" if encrypted else None


def _read_part(part: Payload, where: str) -> Item:
    if part.get("type") == "refusal":
        return Refused(need_text(part.get("refusal"), f"{where}.refusal"))
    if part.get("type") != "output_text":
        raise Untranslatable(f"{where}.type", f"content of the type {part.get('type')!r} is not text")
    return Said("assistant", (Text(need_text(part.get("text"), f"{where}.text")),))


def _read_signature(item: Payload) -> list[Delta]:
    signature = signature_of(item)
    return [Signed(signature)] if signature else []


class ResponsesReader:
    """A stream. Everything comes twice, as deltas and whole; the deltas are read, and of the whole only the end."""

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
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = table(parsed.get("item"))
            added = kind.endswith("added")
            return self._read_item(number(parsed.get("output_index")), item) if added else _read_signature(item)
        response = table(parsed.get("response"))
        if kind == "response.created":
            created = seconds(response.get("created_at"))
            return [Started(text(response.get("id")) or "", text(response.get("model")) or "", created)]
        if kind in ("response.completed", "response.incomplete"):
            stop = _stop(response, "tool_calls" if self._slots else "stop")
            return [Ended(stop, usage_of("openai_responses", response))]
        return read_failure(response if kind == "response.failed" else parsed)

    def _read_item(self, index: int | None, item: Payload) -> list[Delta]:
        kind = item.get("type")
        if kind == "function_call":
            slot = self._slots[index] = len(self._slots)
            return [CallStarted(slot, text(item.get("call_id")) or "", text(item.get("name")) or "")]
        if kind in ("message", "reasoning"):
            return []
        raise Untranslatable("item.type", f"there is no place for items of the type {kind!r}")

    def close(self) -> list[Delta]:
        """Nothing: this protocol always says the end itself, in an event that holds the whole answer."""
        return []
