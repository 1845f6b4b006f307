"""A stream of OpenAI's responses API, written delta by delta.

This dialect says everything twice: as deltas, and again as a whole when a part, an item and the answer are finished. So
the writer keeps what it has written.
"""

from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.neutral.answers_written import RESPONSES_REASONS, write_output, write_response
from seatrial.gateway.neutral.stream_writers import error_events
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
    Started,
    Text,
)
from seatrial.gateway.sse import SseEvent

_KINDS = {"text": "response.output_text", "reasoning": "response.reasoning_text", "refusal": "response.refusal"}
_PREFIXES = {"call": "fc", "reasoning": "rs"}  # of the ids that `write_output` gives


class _Growing:
    """One item of the output while it is written."""

    def __init__(self, kind: str, index: int, answer: str) -> None:
        self.kind = kind
        self.index = index
        self.call = ("", "")
        self.pieces: list[str] = []
        self.done = False
        self._id = f"{answer}_{index}"
        self.where = {"item_id": f"{_PREFIXES.get(kind, 'msg')}_{self._id}", "output_index": index}

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def item(self) -> Item:
        if self.kind == "call":
            return Called(*self.call, self.text)
        if self.kind == "text":
            return Said("assistant", (Text(self.text),))
        return Reasoned(self.text) if self.kind == "reasoning" else Refused(self.text)

    def written(self, status: str = "completed") -> Payload:
        return write_output(self.item(), self._id, status)


class ResponsesWriter:
    """Responses: each text, each thought and each tool call is an item, one after the other."""

    def __init__(self) -> None:
        self._sequence = 0
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
            call = self._calls[delta.slot] = self._add("call")
            call.call = (delta.id, delta.name)
            return [*events, self._added(call)]
        if isinstance(delta, Started):
            self._started = delta
            opening = self._response(Ended("stop", None), "in_progress")
            return [self._event(f"response.{name}", response=opening) for name in ("created", "in_progress")]
        return self._end(delta) if isinstance(delta, Ended) else error_events("openai_responses", delta)

    def _grow_call(self, delta: CallGrown) -> list[SseEvent]:
        call = self._calls.get(delta.slot)
        if call is None:
            return []
        call.pieces.append(delta.text)
        return [self._event("response.function_call_arguments.delta", **call.where, delta=delta.text)]

    def _grow(self, delta: Grown) -> list[SseEvent]:
        events: list[SseEvent] = []
        last = self._items[-1] if self._items else None
        if last is None or last.done or last.kind != delta.kind:
            events = self._finish()
            last = self._add(delta.kind)
            events.append(self._added(last))
            part = last.written()["content"][0]
            events.append(self._event("response.content_part.added", **last.where, content_index=0, part=part))
        last.pieces.append(delta.text)
        extra: Payload = {"logprobs": []} if delta.kind == "text" else {}
        name = f"{_KINDS[delta.kind]}.delta"
        return [*events, self._event(name, **last.where, content_index=0, delta=delta.text, **extra)]

    def _add(self, kind: str) -> _Growing:
        self._items.append(_Growing(kind, len(self._items), self._started.id))
        return self._items[-1]

    def _added(self, item: _Growing) -> SseEvent:
        opening = item.written("in_progress")
        if "content" in opening:
            opening["content"] = []
        return self._event("response.output_item.added", output_index=item.index, item=opening)

    def _finish(self, *kinds: str) -> list[SseEvent]:
        """The events that end the open items, of these kinds or of all."""
        ending = [item for item in self._items if not item.done and (not kinds or item.kind in kinds)]
        return [event for item in ending for event in self._finish_item(item)]

    def _finish_item(self, item: _Growing) -> list[SseEvent]:
        item.done = True
        whole = item.written()
        if item.kind == "call":
            name, fields = "response.function_call_arguments", {"arguments": item.text, "name": item.call[1]}
            events = [self._event(f"{name}.done", **item.where, **fields)]
        else:
            events = self._finish_part(item, whole["content"][0])
        return [*events, self._event("response.output_item.done", output_index=item.index, item=whole)]

    def _finish_part(self, item: _Growing, part: Payload) -> list[SseEvent]:
        fields = {name: value for name, value in part.items() if name in ("text", "refusal", "logprobs")}
        where = {**item.where, "content_index": 0}
        done = self._event(f"{_KINDS[item.kind]}.done", **where, **fields)
        return [done, self._event("response.content_part.done", **where, part=part)]

    def _end(self, ended: Ended) -> list[SseEvent]:
        events = self._finish()
        status = "incomplete" if ended.stop in RESPONSES_REASONS else "completed"
        return [*events, self._event(f"response.{status}", response=self._response(ended, status))]

    def _response(self, ended: Ended, status: str) -> Payload:
        head = self._started
        answer = Answer(head.id, head.model, (), ended.stop, ended.usage, head.created)
        return write_response(answer, [item.written() for item in self._items], status)

    def _event(self, kind: str, **fields: Any) -> SseEvent:
        event = SseEvent(kind, dump({"type": kind, "sequence_number": self._sequence, **fields}))
        self._sequence += 1
        return event
