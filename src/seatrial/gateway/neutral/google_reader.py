"""Answers of Google's, whole or as a stream, read into neutral words."""

from typing import Any

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import items, parse_object, table, text
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
    Started,
    Stop,
    Text,
    Untranslatable,
)
from seatrial.gateway.sse import SseEvent

_STOPS: dict[str, Stop] = {
    "MAX_TOKENS": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "LANGUAGE": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
}


def read_content(response: Payload) -> tuple[list[Item], Stop]:
    """What a whole answer says and why it ends. Raises Untranslatable."""
    candidates = tables(response.get("candidates"), "candidates")
    if len(candidates) > 1:
        raise Untranslatable("candidates", f"there has to be one, not {len(candidates)}")
    if not candidates:
        return [], "content_filter" if table(response.get("promptFeedback")).get("blockReason") else "stop"
    candidate, where = candidates[0]
    ids = _CallIds(text(response.get("responseId")) or "")
    parts = tables(table(candidate.get("content")).get("parts"), f"{where}.content.parts")
    found = [item for part, place in parts if (item := _read_part(part, place, ids)) is not None]
    return found, _stop(candidate.get("finishReason"), calls=ids.count > 0)


class _CallIds:
    """Ids for calls that have none, of the answer and their number in it: no two of a conversation are alike."""

    def __init__(self, answer: str = "") -> None:
        self.answer = answer
        self.count = 0

    def next(self, call: Payload) -> str:
        self.count += 1
        return text(call.get("id")) or "_".join(filter(None, ("call", self.answer, str(self.count - 1))))


def _read_part(part: Payload, where: str, ids: _CallIds) -> Item | None:
    if part.get("text") is not None:
        words = need_text(part["text"], f"{where}.text")
        if part.get("thought"):
            return Reasoned(words)
        return Said("assistant", (Text(words),)) if words else None  # one that only carries a signature
    if part.get("functionCall") is not None:
        call = need_table(part["functionCall"], f"{where}.functionCall")
        given = need_table({} if call.get("args") is None else call["args"], f"{where}.functionCall.args")
        name = need_text(call.get("name"), f"{where}.functionCall.name")
        return Called(ids.next(call), name, arguments_text(given, f"{where}.functionCall.args"))
    if part.keys() <= {"thought", "thoughtSignature"}:
        return None
    raise Untranslatable(where, f"there is no place for a part with {', '.join(sorted(part))}")


def _stop(reason: Any, *, calls: bool) -> Stop:
    known = _STOPS.get(str(reason), "stop")
    return "tool_calls" if calls and known == "stop" else known


class GoogleReader:
    """A stream. Calls come whole. There is no mark of the end but the reason to stop, and a count of tokens with it."""

    def __init__(self) -> None:
        self._ids = _CallIds()
        self._started = False
        self._stop: Stop | None = None
        self._usage: Payload = {}
        self._ended = False

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says."""
        parsed = parse_object(event.data)
        if parsed is None or self._ended:
            return []
        if parsed.get("error"):
            return read_failure(parsed)
        deltas: list[Delta] = [] if self._started else [self._start(parsed)]
        if isinstance(parsed.get("usageMetadata"), dict):
            self._usage = parsed
        for candidate in items(parsed.get("candidates")):
            deltas.extend(self._read_candidate(table(candidate)))
        if table(parsed.get("promptFeedback")).get("blockReason"):
            self._stop = "content_filter"
        if self._stop is not None and self._usage is parsed:
            deltas.extend(self.close())
        return deltas

    def _start(self, parsed: Payload) -> Started:
        """Every event repeats the head of the answer; the first one is believed."""
        self._started = True
        self._ids.answer = text(parsed.get("responseId")) or ""
        return Started(self._ids.answer, text(parsed.get("modelVersion")) or "")

    def _read_candidate(self, candidate: Payload) -> list[Delta]:
        if candidate.get("index"):
            raise Untranslatable("candidates", "there has to be one")
        deltas: list[Delta] = []
        for part, where in tables(table(candidate.get("content")).get("parts"), "candidates[0].content.parts"):
            item = _read_part(part, where, self._ids)
            if item is not None:
                deltas.extend(self._told(item))
        if reason := candidate.get("finishReason"):
            self._stop = _stop(reason, calls=self._ids.count > 0)
        return deltas

    def _told(self, item: Item) -> list[Delta]:
        if isinstance(item, Called):
            slot = self._ids.count - 1
            return [CallStarted(slot, item.id, item.name), CallGrown(slot, item.arguments)]
        if isinstance(item, Reasoned):
            return [Grown("reasoning", item.text)] if item.text else []
        return (
            [Grown("text", part.text) for part in item.parts if isinstance(part, Text)]
            if isinstance(item, Said)
            else []
        )

    def close(self) -> list[Delta]:
        """The end, once; nothing if the stream was cut."""
        if self._stop is None or self._ended:
            return []
        self._ended = True
        return [Ended(self._stop, usage_of("google", self._usage))]
