"""Answers of Google's generateContent, whole or as a stream: read into neutral words and written from them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seatrial.gateway.base import SseEvent, TokenCounts
from seatrial.gateway.fields import Payload, as_usage, counted, is_count
from seatrial.gateway.neutral.checks import (
    arguments_answered,
    need_table,
    need_text,
    pieces,
    read_failure,
    says_nothing,
    tables,
)
from seatrial.gateway.neutral.google_requests import read_call, write_call, write_thought
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
from seatrial.untrusted.json import dump, items, mapping, parse_object, text

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
    candidates = tables(response.get("candidates"), "candidates")
    if len(candidates) > 1:
        raise Untranslatable("candidates", f"there has to be one, not {len(candidates)}")
    if not candidates:
        return [], "content_filter" if mapping(response.get("promptFeedback")).get("blockReason") else "stop"
    candidate, where = candidates[0]
    ids = _CallIds(text(response.get("responseId")) or "")
    parts = tables(mapping(candidate.get("content")).get("parts"), f"{where}.content.parts")
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
            return Reasoning(words)
        return Message("assistant", (words,)) if words else None  # one that only carries a signature
    if part.get("functionCall") is not None:
        call = need_table(part["functionCall"], f"{where}.functionCall")
        return read_call(call, ids.next(call), f"{where}.functionCall")
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
        parsed = parse_object(event.data)
        if parsed is None or self._ended:
            return []
        if parsed.get("error"):
            return read_failure(parsed)
        deltas: list[Delta] = [] if self._started else [self._start(parsed)]
        if isinstance(parsed.get("usageMetadata"), dict):
            self._usage = parsed
        for candidate in items(parsed.get("candidates")):
            deltas.extend(self._read_candidate(mapping(candidate)))
        if mapping(parsed.get("promptFeedback")).get("blockReason"):
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
        for part, where in tables(mapping(candidate.get("content")).get("parts"), "candidates[0].content.parts"):
            item = _read_part(part, where, self._ids)
            if item is not None:
                deltas.extend(self._told(item))
        if reason := candidate.get("finishReason"):
            self._stop = _stop(reason, calls=self._ids.count > 0)
        return deltas

    def _told(self, item: Item) -> list[Delta]:
        if isinstance(item, ToolCall):
            slot = self._ids.count - 1
            return [CallStarted(slot, item.id, item.name), CallDelta(slot, item.arguments)]
        if isinstance(item, Reasoning):
            return [TextDelta("reasoning", item.text)] if item.text else []
        return (
            [TextDelta("text", part) for part in item.parts if isinstance(part, str)]
            if isinstance(item, Message)
            else []
        )

    def close(self) -> list[Delta]:
        """The end, once; nothing if the stream was cut."""
        if self._stop is None or self._ended:
            return []
        self._ended = True
        return [Ended(self._stop, as_usage(counts(self._usage)))]


def counts(response: Any) -> TokenCounts | None:
    """What an answer consumed. Counts of nothing are left out by Google, and thoughts come on top of the words."""
    found = mapping(mapping(response).get("usageMetadata"))
    if not found:
        return None
    read = (found.get("promptTokenCount"), found.get("toolUsePromptTokenCount") or 0)
    thought = found.get("thoughtsTokenCount") or 0
    written = (found.get("candidatesTokenCount") or 0, thought)
    return counted(
        sum(read) if all(map(is_count, read)) else None,
        found.get("cachedContentTokenCount"),
        sum(written) if all(map(is_count, written)) else None,
        thought,
    )


# Writing: a whole answer, one that grows, and a whole one cut into a stream.

_REASONS: dict[Stop, str] = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "content_filter": "SAFETY"}


def write_answer(answer: Answer) -> Payload:
    """A `GenerateContentResponse`. Raises Untranslatable for what is no part of an answer."""
    parts = _joined(_part(item, answer.stop) for item in answer.items if not says_nothing(item))
    refused = any(isinstance(item, Refusal) for item in answer.items)
    return {
        "candidates": [_candidate(parts, _reason(answer.stop, refused=refused))],
        **({"usageMetadata": _usage(answer.usage)} if answer.usage else {}),
        **_head(answer),
    }


def _joined(parts: Iterable[Payload]) -> list[Payload]:
    """Parts in which neighbouring texts of one kind are one, as they are when a stream is put together."""
    found: list[Payload] = []
    for part in parts:
        if found and _goes_on(found[-1], part):
            found[-1] = {**part, "text": found[-1]["text"] + part["text"]}
        else:
            found.append(part)
    return found


def _goes_on(before: Payload, part: Payload) -> bool:
    """Whether a part is more of the text before it, which no signature has closed."""
    both = "text" in part and "text" in before and "thoughtSignature" not in before
    return both and part.get("thought") == before.get("thought")


def _part(item: Item, stop: Stop) -> Payload:
    if isinstance(item, Message | Refusal):
        return {"text": item.text}
    if isinstance(item, Reasoning):
        return write_thought(item.text, item.signature)
    if isinstance(item, ToolCall):
        return write_call(item.id, item.name, arguments_answered(item, stop))
    raise Untranslatable("tool results", "they are no part of an answer")


class GoogleWriter:
    """A stream. Tool calls come whole in this protocol: they are kept until something else comes, or the end."""

    def __init__(self) -> None:
        self._head: Payload = {}
        self._calls: dict[int, tuple[CallStarted, list[str]]] = {}
        self._refused = False

    def write(self, delta: Delta) -> list[SseEvent]:
        if isinstance(delta, TextDelta):
            return self._grow(delta)
        if isinstance(delta, CallDelta):
            if delta.slot in self._calls:
                self._calls[delta.slot][1].append(delta.text)
            return []
        if isinstance(delta, CallStarted):
            self._calls[delta.slot] = (delta, [])
            return []
        if isinstance(delta, Started):
            self._head = _head(delta)
            return []
        if isinstance(delta, SignatureDelta):
            return [self._event([write_thought("", delta.signature)])]
        return self._end(delta) if isinstance(delta, Ended) else []

    def _grow(self, grown: TextDelta) -> list[SseEvent]:
        self._refused = self._refused or grown.kind == "refusal"
        part = {"text": grown.text, **({"thought": True} if grown.kind == "reasoning" else {})}
        return [self._event([*self._called("stop"), part])]

    def _end(self, ended: Ended) -> list[SseEvent]:
        usage = {"usageMetadata": _usage(ended.usage)} if ended.usage else {}
        return [self._event(self._called(ended.stop), _reason(ended.stop, refused=self._refused), **usage)]

    def _called(self, stop: Stop) -> list[Payload]:
        calls, self._calls = self._calls, {}
        return [_part(ToolCall(begun.id, begun.name, "".join(grown)), stop) for begun, grown in calls.values()]

    def _event(self, parts: list[Payload], reason: str | None = None, **beside: Payload) -> SseEvent:
        return SseEvent(None, dump({"candidates": [_candidate(parts, reason)], **beside, **self._head}))


def split_answer(response: Mapping[str, Any]) -> Iterator[SseEvent]:
    """The events of a whole answer, parts of any kind included."""
    rest = {name: value for name, value in response.items() if name != "candidates"}
    head = {name: rest[name] for name in ("modelVersion", "responseId") if name in rest}
    ends = []
    for candidate in () if "promptFeedback" in rest and "candidates" not in response else response["candidates"]:
        index = {"index": candidate.get("index", 0)}
        content = candidate.get("content", {})
        beside = {name: value for name, value in content.items() if name != "parts"}
        for part in content.get("parts", ()):
            for piece in _pieces(part):
                said = {"content": {"parts": [piece], **beside}, **index}
                yield SseEvent(None, dump({"candidates": [said], **head}))
        ends.append({**candidate, "content": {**beside, "parts": []}, **index} if content else {**candidate, **index})
    yield SseEvent(None, dump({**({"candidates": ends} if ends else {}), **rest}))


def _pieces(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A part, its text in several pieces; what stands beside it comes with the last one."""
    texts = list(pieces(part["text"])) if isinstance(part.get("text"), str) else []
    thought = {"thought": part["thought"]} if "thought" in part else {}
    yield from ({"text": each, **thought} for each in texts[:-1])
    yield {**part, "text": texts[-1]} if texts else part


def _head(answer: Answer | Started) -> Payload:
    return {"modelVersion": answer.model, "responseId": answer.id}


def _candidate(parts: list[Payload], reason: str | None) -> Payload:
    content = {"parts": parts, "role": "model"}
    return {"content": content, **({"finishReason": reason} if reason else {}), "index": 0}


def _reason(stop: Stop, *, refused: bool) -> str:
    return "SAFETY" if refused else _REASONS[stop]


def _usage(usage: TokenUsage) -> Payload:
    thought = min(usage.reasoning_tokens, usage.output_tokens)
    written = {
        "promptTokenCount": usage.input_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
        "candidatesTokenCount": usage.output_tokens - thought,
        "thoughtsTokenCount": thought,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
    return {name: value for name, value in written.items() if value or name in ("promptTokenCount", "totalTokenCount")}
