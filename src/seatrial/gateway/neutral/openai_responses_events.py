"""The events of OpenAI's responses API: what each looks like, whether its answer grows or is there already."""

from collections.abc import Mapping
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.sse import SseEvent

_ENDINGS = {"incomplete": "response.incomplete", "failed": "response.failed"}
_TEXTS = {
    "output_text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "reasoning_text": ("response.reasoning_text", "text"),
}
"""Parts that stream: the name of their events, followed by `.delta` or `.done`, and the field that grows."""

_GROWING_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}


def place(index: int, item: Mapping[str, Any]) -> Payload:
    """How events name the item that they belong to."""
    return {"item_id": item.get("id", ""), "output_index": index}


def part_text(part: Mapping[str, Any]) -> str:
    """The text of a part that grows; empty for a part that comes whole."""
    known = _TEXTS.get(part["type"])
    text: str = part[known[1]] if known else ""
    return text


class NumberedEvents:
    """Writes the events of one stream, which the protocol numbers so that a client can tell that one was lost."""

    def __init__(self) -> None:
        self._next = 0

    def begun(self, response: Mapping[str, Any]) -> list[SseEvent]:
        """The answer begins; clients wait for both of these."""
        opening = {**response, "status": "in_progress", "output": [], "usage": None}
        return [self._event(f"response.{name}", response=opening) for name in ("created", "in_progress")]

    def ended(self, response: Mapping[str, Any]) -> SseEvent:
        """The answer is whole; the name of the event says how it ended."""
        return self._event(_ENDINGS.get(response.get("status", ""), "response.completed"), response=response)

    def item_added(self, index: int, item: Mapping[str, Any]) -> SseEvent:
        """An item begins, still empty."""
        opening = {**item}
        if "status" in item:
            opening["status"] = "in_progress"
        if item.get("content"):
            opening["content"] = []
        for kind, grows in _GROWING_FIELDS.items():
            if item["type"] == kind:
                opening[grows] = ""
        return self._event("response.output_item.added", output_index=index, item=opening)

    def item_done(self, index: int, item: Mapping[str, Any]) -> SseEvent:
        """An item is whole."""
        return self._event("response.output_item.done", output_index=index, item=item)

    def call_grown(self, where: Payload, text: str) -> SseEvent:
        """More arguments of a call."""
        return self._event("response.function_call_arguments.delta", **where, delta=text)

    def call_done(self, where: Payload, item: Mapping[str, Any]) -> SseEvent:
        """The arguments of a call are whole."""
        fields = {"name": item["name"], "arguments": item["arguments"]}
        return self._event("response.function_call_arguments.done", **where, **fields)

    def freeform_said(self, where: Payload, text: str) -> list[SseEvent]:
        """The text of a call of a freeform tool, all at once."""
        kind = "response.custom_tool_call_input"
        delta = [self._event(f"{kind}.delta", **where, delta=text)] if text else []
        return [*delta, self._event(f"{kind}.done", **where, input=text)]

    def part_added(self, where: Payload, part: Payload) -> SseEvent:
        """A part of an item begins, still empty."""
        known = _TEXTS.get(part["type"])
        return self._event("response.content_part.added", **where, part={**part, known[1]: ""} if known else part)

    def part_grown(self, where: Payload, kind: str, text: str) -> SseEvent:
        """More text of a part of this kind."""
        extra: Payload = {"logprobs": []} if kind == "output_text" else {}
        return self._event(f"{_TEXTS[kind][0]}.delta", **where, delta=text, **extra)

    def part_done(self, where: Payload, part: Payload) -> list[SseEvent]:
        """A part is whole."""
        known = _TEXTS.get(part["type"])
        events = []
        if known:
            name, field = known
            extra = {"logprobs": part.get("logprobs") or []} if part["type"] == "output_text" else {}
            events = [self._event(f"{name}.done", **where, **{field: part[field]}, **extra)]
        return [*events, self._event("response.content_part.done", **where, part=part)]

    def _event(self, kind: str, **fields: Any) -> SseEvent:
        event = SseEvent(kind, dump({"type": kind, "sequence_number": self._next, **fields}))
        self._next += 1
        return event
