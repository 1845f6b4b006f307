"""Answers of OpenAI's responses API: whole, as a stream that grows, and a whole one cut into a stream.

The protocol says everything twice: as deltas, and again as a whole when a part, an item and the answer are finished. So
the writer of a stream keeps what it has written.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.failures import write_failure
from seatrial.gateway.neutral.freeform import freeform_text
from seatrial.gateway.neutral.openai_responses_events import NumberedEvents, part_text, place
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
    Text,
    Untranslatable,
    joined,
)
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import TokenUsage

_REASONS: dict[Stop, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}


def write_answer(answer: Answer) -> Payload:
    """A `response`. Raises Untranslatable for what is no part of an answer."""
    return _response(answer, [_output(item, f"{answer.id}_{i}") for i, item in enumerate(answer.items)])


def _response(answer: Answer, output: list[Payload]) -> Payload:
    """The object around the output. Of the request it repeats nothing: an answer translated does not know it."""
    reason = _REASONS.get(answer.stop)
    return {
        "id": answer.id,
        "object": "response",
        "created_at": answer.created,
        "model": answer.model,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": _usage(answer.usage) if answer.usage else None,
    }


def _output(item: Item, item_id: str) -> Payload:
    if isinstance(item, Called):
        return _call(item, item_id)
    if isinstance(item, Reasoned):
        content = [{"type": "reasoning_text", "text": item.text}]
        signed = {"encrypted_content": item.signature} if item.signature else {}
        head = {"type": "reasoning", "id": f"rs_{item_id}", "summary": [], "content": content}
        return {**head, **signed, "status": "completed"}
    if isinstance(item, Refused):
        part: Payload = {"type": "refusal", "refusal": item.text}
    elif isinstance(item, Said):
        part = {"type": "output_text", "text": joined((item,), Said), "annotations": [], "logprobs": []}
    else:
        raise Untranslatable("tool results", "they are no part of an answer")
    head = {"type": "message", "id": f"msg_{item_id}", "role": "assistant"}
    return {**head, "status": "completed", "content": [part]}


def _call(call: Called, item_id: str) -> Payload:
    if call.freeform:
        head = {"type": "custom_tool_call", "id": f"ctc_{item_id}", "call_id": call.id, "name": call.name}
        return {**head, "input": freeform_text(call.arguments), "status": "completed"}
    head = {"type": "function_call", "id": f"fc_{item_id}", "call_id": call.id, "name": call.name}
    within = {"namespace": call.namespace} if call.namespace else {}
    return {**head, **within, "arguments": call.arguments, "status": "completed"}


class _Growing:
    """One item of the output while it is written."""

    def __init__(self, kind: str, index: int, answer: str, call: CallStarted | None = None) -> None:
        self.kind = kind
        self.index = index
        self.pieces: list[str] = []
        self.signature: str | None = None
        self.done = False
        self.call = call
        self._id = f"{answer}_{index}"
        self.opening = self.written()
        self.where = place(index, self.opening)
        self.part = {**self.where, "content_index": 0}

    def written(self) -> Payload:
        return _output(self._item("".join(self.pieces)), self._id)

    def _item(self, text: str) -> Item:
        if self.call is not None:
            return Called(self.call.id, self.call.name, text, self.call.freeform, self.call.namespace)
        if self.kind == "text":
            return Said("assistant", (Text(text),))
        return Reasoned(text, self.signature) if self.kind == "reasoning" else Refused(text)


class ResponsesWriter:
    """A stream. Each text, each thought and each tool call is an item, one after the other."""

    def __init__(self) -> None:
        self._events = NumberedEvents()
        self._started = Started("", "")
        self._items: list[_Growing] = []
        self._calls: dict[int, _Growing] = {}

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        if isinstance(delta, Grown):
            return self._grow(delta)
        if isinstance(delta, CallGrown):
            return self._grow_call(delta)
        if isinstance(delta, CallStarted):
            events = self._finish("text", "reasoning", "refusal")  # parallel calls may grow in turns
            call = self._calls[delta.slot] = self._add("call", delta)
            return [*events, self._events.item_added(call.index, call.opening)]
        if isinstance(delta, Started):
            self._started = delta
            return self._events.begun(self._whole(Ended("stop", None)))
        if isinstance(delta, Signed):
            return self._sign(delta)
        return self._end(delta) if isinstance(delta, Ended) else write_failure("openai_responses", delta)

    def _grow_call(self, delta: CallGrown) -> list[SseEvent]:
        call = self._calls.get(delta.slot)
        if call is None:
            return []
        call.pieces.append(delta.text)
        if call.call is not None and call.call.freeform:
            return []  # its text is known when its arguments are whole
        return [self._events.call_grown(call.where, delta.text)]

    def _sign(self, signed: Signed) -> list[SseEvent]:
        """Of a thought that was not shown there is only this. One that is signed is over."""
        last, events = self._open("reasoning")
        last.signature = signed.signature
        return [*events, *self._finish("reasoning")]

    def _open(self, kind: str) -> tuple[_Growing, list[SseEvent]]:
        """The item of a kind that may still grow, and the events that begin it if it is new."""
        last = self._items[-1] if self._items else None
        if last is not None and not last.done and last.kind == kind:
            return last, []
        events = self._finish()
        last = self._add(kind)
        events.append(self._events.item_added(last.index, last.opening))
        events.append(self._events.part_added(last.part, last.opening["content"][0]))
        return last, events

    def _grow(self, delta: Grown) -> list[SseEvent]:
        last, events = self._open(delta.kind)
        last.pieces.append(delta.text)
        return [*events, self._events.part_grown(last.part, last.opening["content"][0]["type"], delta.text)]

    def _add(self, kind: str, call: CallStarted | None = None) -> _Growing:
        self._items.append(_Growing(kind, len(self._items), self._started.id, call))
        return self._items[-1]

    def _finish(self, *kinds: str) -> list[SseEvent]:
        """The events that end the open items, of these kinds or of all."""
        ending = [item for item in self._items if not item.done and (not kinds or item.kind in kinds)]
        return [event for item in ending for event in self._finish_item(item)]

    def _finish_item(self, growing: _Growing) -> list[SseEvent]:
        growing.done = True
        item = growing.written()
        if growing.call is not None and growing.call.freeform:
            events = self._events.freeform_said(growing.where, item["input"])
        elif growing.call is not None:
            events = [self._events.call_done(growing.where, item)]
        else:
            events = self._events.part_done(growing.part, item["content"][0])
        return [*events, self._events.item_done(growing.index, item)]

    def _end(self, ended: Ended) -> list[SseEvent]:
        return [*self._finish(), self._events.ended(self._whole(ended))]

    def _whole(self, ended: Ended) -> Payload:
        head = self._started
        answer = Answer(head.id, head.model, (), ended.stop, ended.usage, head.created)
        return _response(answer, [item.written() for item in self._items])


def split_answer(response: Mapping[str, Any], *, include_usage: bool) -> Iterator[SseEvent]:
    """The events of a `response`, items of any type included. Usage is always told, so `include_usage` is unheeded."""
    del include_usage
    events = NumberedEvents()
    yield from events.begun(response)
    for index, item in enumerate(response["output"]):
        yield events.item_added(index, item)
        yield from _split_item(events, place(index, item), item)
        yield events.item_done(index, item)
    yield events.ended(response)


def _split_item(events: NumberedEvents, where: Payload, item: Mapping[str, Any]) -> Iterator[SseEvent]:
    if item["type"] == "function_call":
        yield from (events.call_grown(where, piece) for piece in pieces(item["arguments"]))
        yield events.call_done(where, item)
    if item["type"] == "custom_tool_call":
        yield from events.freeform_said(where, item["input"])
    content = item["content"] if item["type"] == "message" else item.get("content")
    for index, part in enumerate(content or ()):
        inside = {**where, "content_index": index}
        yield events.part_added(inside, part)
        yield from (events.part_grown(inside, part["type"], piece) for piece in pieces(part_text(part)))
        yield from events.part_done(inside, part)


def _usage(usage: TokenUsage) -> Payload:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
