"""Answers of OpenAI's responses API, whole or as a stream: read into neutral words and written from them."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from seatrial.gateway.base import SseEvent, TokenCounts
from seatrial.gateway.fields import Payload, as_usage, counted, with_cache_writes
from seatrial.gateway.neutral.checks import freeform_text, need_text, pieces, read_failure, seconds, tables
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
from seatrial.untrusted.json import dump, items, mapping, parse_object, text, whole_number

_CALL_KEYS = ("call_id", "name", "arguments")
_STOPS: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_GROWN: dict[Any, Literal["text", "reasoning", "refusal"]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
}


def read_content(response: Payload) -> tuple[list[Item], Stop]:
    said: list[Item] = []
    for item, where in tables(response.get("output"), "output"):
        said.extend(_read_output(item, where))
    return said, _stop(response, "tool_calls" if any(isinstance(item, ToolCall) for item in said) else "stop")


def _stop(response: Payload, otherwise: Stop) -> Stop:
    """Why the answer ends. The protocol has a reason only for incomplete ones; of others the output itself tells."""
    return _STOPS.get(str(mapping(response.get("incomplete_details")).get("reason")), otherwise)


def _read_output(item: Payload, where: str) -> list[Item]:
    kind = item.get("type")
    if kind == "message":
        return [_read_part(*found) for found in tables(item.get("content"), f"{where}.content")]
    if kind == "function_call":
        call_id, name, arguments = (need_text(item.get(key), f"{where}.{key}") for key in _CALL_KEYS)
        return [ToolCall(call_id, name, arguments)]
    if kind == "reasoning":
        parts = [mapping(part) for part in [*items(item.get("content")), *items(item.get("summary"))]]
        return [Reasoning("".join(text(part.get("text")) or "" for part in parts), signature_of(item))]
    raise Untranslatable(f"{where}.type", f"there is no place for items of the type {kind!r}")


def signature_of(item: Payload) -> str | None:
    """What the provider wants back of a thought. It knows that only together with the id of the thought."""
    encrypted = text(item.get("encrypted_content")) if item.get("type") == "reasoning" else None
    return f"{text(item.get('id')) or ''} {encrypted}" if encrypted else None


def _read_part(part: Payload, where: str) -> Item:
    if part.get("type") == "refusal":
        return Refusal(need_text(part.get("refusal"), f"{where}.refusal"))
    if part.get("type") != "output_text":
        raise Untranslatable(f"{where}.type", f"content of the type {part.get('type')!r} is not text")
    return Message("assistant", (need_text(part.get("text"), f"{where}.text"),))


def _read_signature(item: Payload) -> list[Delta]:
    signature = signature_of(item)
    return [SignatureDelta(signature)] if signature else []


class ResponsesReader:
    """A stream. Everything comes twice, as deltas and whole; the deltas are read, and of the whole only the end."""

    def __init__(self) -> None:
        self._slots: dict[Any, int] = {}

    def read(self, event: SseEvent) -> list[Delta]:
        parsed = parse_object(event.data) or {}
        kind = parsed.get("type")
        if isinstance(kind, str) and kind in _GROWN:
            delta = text(parsed.get("delta"))
            return [TextDelta(_GROWN[kind], delta)] if delta else []
        if kind == "response.function_call_arguments.delta":
            slot, delta = self._slots.get(whole_number(parsed.get("output_index"))), text(parsed.get("delta"))
            return [CallDelta(slot, delta)] if delta and slot is not None else []
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = mapping(parsed.get("item"))
            added = kind.endswith("added")
            return self._read_item(whole_number(parsed.get("output_index")), item) if added else _read_signature(item)
        response = mapping(parsed.get("response"))
        if kind == "response.created":
            created = seconds(response.get("created_at"))
            return [Started(text(response.get("id")) or "", text(response.get("model")) or "", created)]
        if kind in ("response.completed", "response.incomplete"):
            stop = _stop(response, "tool_calls" if self._slots else "stop")
            return [Ended(stop, as_usage(counts(response)))]
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


def counts(response: Any) -> TokenCounts | None:
    found = mapping(mapping(response).get("usage"))
    if not found:
        return None
    details = mapping(found.get("input_tokens_details"))
    counts = counted(
        found.get("input_tokens"),
        details.get("cached_tokens"),
        found.get("output_tokens"),
        mapping(found.get("output_tokens_details")).get("reasoning_tokens"),
    )
    return with_cache_writes(counts, details.get("cache_write_tokens"))


# Events: what each looks like, whether its answer grows or is there already.

_ENDINGS = {"incomplete": "response.incomplete", "failed": "response.failed"}
_TEXTS = {
    "output_text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "reasoning_text": ("response.reasoning_text", "text"),
}
"""Parts that stream: the name of their events, followed by `.delta` or `.done`, and the field that grows."""

_GROWING_FIELDS = {"function_call": "arguments", "custom_tool_call": "input"}


def place(index: int, item: Mapping[str, Any]) -> Payload:
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
        return self._event("response.output_item.done", output_index=index, item=item)

    def call_grown(self, where: Payload, text: str) -> SseEvent:
        return self._event("response.function_call_arguments.delta", **where, delta=text)

    def call_done(self, where: Payload, item: Mapping[str, Any]) -> SseEvent:
        fields = {"name": item["name"], "arguments": item["arguments"]}
        return self._event("response.function_call_arguments.done", **where, **fields)

    def freeform_said(self, where: Payload, text: str) -> list[SseEvent]:
        """The text of a call of a freeform tool, all at once."""
        kind = "response.custom_tool_call_input"
        delta = [self._event(f"{kind}.delta", **where, delta=text)] if text else []
        return [*delta, self._event(f"{kind}.done", **where, input=text)]

    def part_added(self, where: Payload, part: Payload) -> SseEvent:
        known = _TEXTS.get(part["type"])
        return self._event("response.content_part.added", **where, part={**part, known[1]: ""} if known else part)

    def part_grown(self, where: Payload, kind: str, text: str) -> SseEvent:
        extra: Payload = {"logprobs": []} if kind == "output_text" else {}
        return self._event(f"{_TEXTS[kind][0]}.delta", **where, delta=text, **extra)

    def part_done(self, where: Payload, part: Payload) -> list[SseEvent]:
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


# Writing: a whole answer, one that grows, and a whole one cut into a stream. The protocol says everything twice: as
# deltas, and again as a whole when a part, an item and the answer are finished. So the writer of a stream keeps what it
# has written.

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
    if isinstance(item, ToolCall):
        return _call(item, item_id)
    if isinstance(item, Reasoning):
        content = [{"type": "reasoning_text", "text": item.text}]
        signed = {"encrypted_content": item.signature} if item.signature else {}
        head = {"type": "reasoning", "id": f"rs_{item_id}", "summary": [], "content": content}
        return {**head, **signed, "status": "completed"}
    if isinstance(item, Refusal):
        part: Payload = {"type": "refusal", "refusal": item.text}
    elif isinstance(item, Message):
        part = {"type": "output_text", "text": item.text, "annotations": [], "logprobs": []}
    else:
        raise Untranslatable("tool results", "they are no part of an answer")
    head = {"type": "message", "id": f"msg_{item_id}", "role": "assistant"}
    return {**head, "status": "completed", "content": [part]}


def _call(call: ToolCall, item_id: str) -> Payload:
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
            return ToolCall(self.call.id, self.call.name, text, self.call.freeform, self.call.namespace)
        if self.kind == "text":
            return Message("assistant", (text,))
        return Reasoning(text, self.signature) if self.kind == "reasoning" else Refusal(text)


class ResponsesWriter:
    """A stream. Each text, each thought and each tool call is an item, one after the other."""

    def __init__(self) -> None:
        self._events = NumberedEvents()
        self._started = Started("", "")
        self._items: list[_Growing] = []
        self._calls: dict[int, _Growing] = {}

    def write(self, delta: Delta) -> list[SseEvent]:
        if isinstance(delta, TextDelta):
            return self._grow(delta)
        if isinstance(delta, CallDelta):
            return self._grow_call(delta)
        if isinstance(delta, CallStarted):
            events = self._finish("text", "reasoning", "refusal")  # parallel calls may grow in turns
            call = self._calls[delta.slot] = self._add("call", delta)
            return [*events, self._events.item_added(call.index, call.opening)]
        if isinstance(delta, Started):
            self._started = delta
            return self._events.begun(self._whole(Ended("stop", None)))
        if isinstance(delta, SignatureDelta):
            return self._sign(delta)
        return self._end(delta) if isinstance(delta, Ended) else []

    def _grow_call(self, delta: CallDelta) -> list[SseEvent]:
        call = self._calls.get(delta.slot)
        if call is None:
            return []
        call.pieces.append(delta.text)
        if call.call is not None and call.call.freeform:
            return []  # its text is known when its arguments are whole
        return [self._events.call_grown(call.where, delta.text)]

    def _sign(self, signed: SignatureDelta) -> list[SseEvent]:
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

    def _grow(self, delta: TextDelta) -> list[SseEvent]:
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


def split_answer(response: Mapping[str, Any]) -> Iterator[SseEvent]:
    """The events of a `response`, items of any type included."""
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
