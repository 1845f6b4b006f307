"""A streamed response of OpenAI's, put together again.

The last event holds the whole answer. What comes before it is kept all the same: a stream may be cut, and some servers
leave the output out of their last event.
"""

from typing import Any

from seatrial.gateway.dialects.api import Payload, ToldError
from seatrial.gateway.dialects.fields import garbled, items, number, parse_object, table, text, told_error
from seatrial.gateway.sse import SseEvent

_LAST = frozenset({"response.completed", "response.incomplete", "response.failed"})
_ITEMS = frozenset({"response.output_item.added", "response.output_item.done"})
_SNAPSHOTS = frozenset({"response.created", "response.queued", "response.in_progress"})

# Which list of an item a delta belongs to (None: the item itself), the event's index into it, and the field that grows.
_DELTAS: dict[str, tuple[str | None, str, str]] = {
    "response.output_text.delta": ("content", "content_index", "text"),
    "response.refusal.delta": ("content", "content_index", "refusal"),
    "response.reasoning_text.delta": ("content", "content_index", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index", "text"),
    "response.function_call_arguments.delta": (None, "", "arguments"),
    "response.custom_tool_call_input.delta": (None, "", "input"),
    "response.mcp_call_arguments.delta": (None, "", "arguments"),
    "response.code_interpreter_call_code.delta": (None, "", "code"),
}
_PARTS = {
    "response.content_part.added": ("content", "content_index"),
    "response.reasoning_summary_part.added": ("summary", "summary_index"),
}
_PART_TYPES = {
    "response.output_text.delta": "output_text",
    "response.refusal.delta": "refusal",
    "response.reasoning_text.delta": "reasoning_text",
    "response.reasoning_summary_text.delta": "summary_text",
}


class ResponsesAssembler:
    """The StreamAssembler of responses."""

    def __init__(self) -> None:
        self.first_token = False
        self.finished = False
        self.error: ToldError | None = None
        self.garbled: str | None = None
        self._snapshot: Payload | None = None
        self._items: dict[int, _Item] = {}

    def feed(self, event: SseEvent) -> None:
        """Take one event."""
        parsed = parse_object(event.data)
        if parsed is None:
            self.garbled = self.garbled or garbled(event.data)
            return
        kind = parsed.get("type")
        if not isinstance(kind, str):
            kind = event.event or ""
        if kind in _DELTAS:
            self._take_delta(kind, parsed)
        elif kind in _LAST or kind in _SNAPSHOTS:
            self._take_snapshot(kind, table(parsed.get("response")))
        elif kind in _ITEMS:
            self._take_item(kind, _index(parsed), table(parsed.get("item")))
        elif kind in _PARTS:
            self._item(parsed).start_part(*_PARTS[kind], parsed)
        elif kind == "error" or "error" in parsed:
            self.error = told_error(parsed)

    def skim(self, whole: str) -> bool:
        """No: every event says where its text belongs."""
        return False

    def _take_item(self, kind: str, index: int, item: Payload) -> None:
        """An item begins, or is finished and replaces all that was gathered of it."""
        self._items[index] = _Item(item)
        # Words and thoughts are announced while they are still empty.
        if kind == "response.output_item.done" or item.get("type") not in ("message", "reasoning"):
            self.first_token = True

    def _take_delta(self, kind: str, parsed: Payload) -> None:
        delta = parsed.get("delta")
        if isinstance(delta, str):
            self._item(parsed).grow(kind, delta, parsed)
            self.first_token = True

    def _take_snapshot(self, kind: str, response: Payload) -> None:
        self._snapshot = response
        if kind in _LAST:
            self.finished = True
        if kind == "response.failed":
            self.error = told_error(response) or ToldError("server_error", "the response failed without a reason")

    def _item(self, parsed: Payload) -> "_Item":
        index = _index(parsed)
        found = self._items.get(index)
        if found is None:
            found = self._items[index] = _Item({})
        return found

    def response(self) -> Payload | None:
        """The answer as far as it came."""
        if self._snapshot is None and not self._items:
            return None
        answer = {"object": "response", **(self._snapshot or {})}
        if not self.finished or not items(answer.get("output")):
            answer["output"] = [self._items[index].whole() for index in sorted(self._items)]
        return answer


def _index(parsed: Payload) -> int:
    return number(parsed.get("output_index")) or 0


class _Item:
    """One item of the output while it grows."""

    __slots__ = ("_grown", "_logprobs", "_parts", "_start")

    def __init__(self, start: Payload) -> None:
        self._start = start
        self._parts: dict[tuple[str, int], Payload] = {}
        self._grown: dict[tuple[str | None, int, str], list[str]] = {}
        self._logprobs: dict[int, list[Any]] = {}

    def start_part(self, place: str, index_name: str, parsed: Payload) -> None:
        """A new part of the item's content or summary."""
        self._parts[place, number(parsed.get(index_name)) or 0] = table(parsed.get("part"))

    def grow(self, kind: str, delta: str, parsed: Payload) -> None:
        """Add a delta to the field it belongs to."""
        place, index_name, field = _DELTAS[kind]
        index = 0
        if place is not None:
            index = number(parsed.get(index_name)) or 0
            if (place, index) not in self._parts:
                self._parts[place, index] = {"type": _PART_TYPES[kind]}
        key = (place, index, field)
        pieces = self._grown.get(key)
        if pieces is None:
            self._grown[key] = [delta]
        else:
            pieces.append(delta)
        if logprobs := items(parsed.get("logprobs")):
            self._logprobs.setdefault(index, []).extend(logprobs)

    def whole(self) -> Payload:
        """The item as far as it came."""
        item = dict(self._start)
        parts = {place: dict(part) for place, part in self._parts.items()}
        for (place, index, field), pieces in self._grown.items():
            target = item if place is None else parts[place, index]
            target[field] = (text(target.get(field)) or "") + "".join(pieces)
        for index, logprobs in self._logprobs.items():
            parts.get(("content", index), {})["logprobs"] = logprobs
        for place in ("content", "summary"):
            if found := [parts[key] for key in sorted(parts) if key[0] == place]:
                item[place] = found
        return item
