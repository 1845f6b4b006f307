"""Answers of Google's: whole, as a stream that grows, and a whole one cut into a stream."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import dump
from seatrial.gateway.neutral.checks import MALFORMED, arguments_object
from seatrial.gateway.neutral.failures import write_failure
from seatrial.gateway.neutral.google_parts import write_call, write_thought
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
    Untranslatable,
    joined,
)
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import TokenUsage

_REASONS: dict[Stop, str] = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "content_filter": "SAFETY"}


def write_answer(answer: Answer) -> Payload:
    """A `GenerateContentResponse`. Raises Untranslatable for what is no part of an answer."""
    parts = _joined(_part(item, answer.stop) for item in answer.items if not _says_nothing(item))
    refused = any(isinstance(item, Refused) for item in answer.items)
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


def _says_nothing(item: Item) -> bool:
    return isinstance(item, Said) and not joined((item,), Said)


def _part(item: Item, stop: Stop) -> Payload:
    if isinstance(item, Said | Refused):
        return {"text": joined((item,), type(item))}
    if isinstance(item, Reasoned):
        return write_thought(item.text, item.signature)
    if isinstance(item, Called):
        return write_call(item.id, item.name, _arguments(item, stop))
    raise Untranslatable("tool results", "they are no part of an answer")


def _arguments(call: Called, stop: Stop) -> Payload:
    """Its arguments, as the object that this protocol has for them; what is none is for the agent to deal with."""
    try:
        return arguments_object(call.arguments, f"arguments of {call.name}")
    except Untranslatable:
        return {} if stop == "length" else {MALFORMED: call.arguments}


class GoogleWriter:
    """A stream. Tool calls come whole in this protocol: they are kept until something else comes, or the end."""

    def __init__(self) -> None:
        self._head: Payload = {}
        self._calls: dict[int, tuple[CallStarted, list[str]]] = {}
        self._refused = False

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        if isinstance(delta, Grown):
            return self._grow(delta)
        if isinstance(delta, CallGrown):
            if delta.slot in self._calls:
                self._calls[delta.slot][1].append(delta.text)
            return []
        if isinstance(delta, CallStarted):
            self._calls[delta.slot] = (delta, [])
            return []
        if isinstance(delta, Started):
            self._head = _head(delta)
            return []
        if isinstance(delta, Signed):
            return [self._event([write_thought("", delta.signature)])]
        return self._end(delta) if isinstance(delta, Ended) else write_failure("google", delta)

    def _grow(self, grown: Grown) -> list[SseEvent]:
        self._refused = self._refused or grown.kind == "refusal"
        part = {"text": grown.text, **({"thought": True} if grown.kind == "reasoning" else {})}
        return [self._event([*self._called("stop"), part])]

    def _end(self, ended: Ended) -> list[SseEvent]:
        usage = {"usageMetadata": _usage(ended.usage)} if ended.usage else {}
        return [self._event(self._called(ended.stop), _reason(ended.stop, refused=self._refused), **usage)]

    def _called(self, stop: Stop) -> list[Payload]:
        calls, self._calls = self._calls, {}
        return [_part(Called(begun.id, begun.name, "".join(grown)), stop) for begun, grown in calls.values()]

    def _event(self, parts: list[Payload], reason: str | None = None, **beside: Payload) -> SseEvent:
        return SseEvent(None, dump({"candidates": [_candidate(parts, reason)], **beside, **self._head}))


def split_answer(response: Mapping[str, Any], *, include_usage: bool) -> Iterator[SseEvent]:
    """The events of a whole answer, parts of any kind included. Usage is always told, whatever `include_usage` says."""
    del include_usage
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
