"""Answers of OpenAI's chat completions, whole or as a stream, read into neutral words."""

from typing import Any, get_args

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import count, items, parse_object, table, text
from seatrial.gateway.dialects.openai_chat_stream import CallSlots
from seatrial.gateway.neutral.checks import need_list, need_table, need_text, tables
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
    Started,
    Stop,
    Text,
    Untranslatable,
)
from seatrial.gateway.sse import SseEvent

_STOPS: tuple[Any, ...] = get_args(Stop)  # the neutral words are those of this dialect


def read_content(response: Payload) -> tuple[list[Item], Stop]:
    """What a whole answer says and why it ends. Raises Untranslatable."""
    choices = need_list(response.get("choices"), "choices")
    if len(choices) != 1:
        raise Untranslatable("choices", f"there have to be one, not {len(choices)}")
    choice = need_table(choices[0], "choices[0]")
    message = need_table(choice.get("message"), "choices[0].message")
    said: list[Item] = []
    if thought := _thought(message):
        said.append(Reasoned(thought))
    if words := text(message.get("content")):
        said.append(Said("assistant", (Text(words),)))
    if refusal := text(message.get("refusal")):
        said.append(Refused(refusal))
    calls = [_read_call(*found) for found in tables(message.get("tool_calls"), "tool_calls")]
    return [*said, *calls], _stop(choice.get("finish_reason"), calls=bool(calls))


def _read_call(call: Payload, where: str) -> Called:
    function = need_table(call.get("function"), f"{where}.function")
    name = need_text(function.get("name"), f"{where}.function.name")
    return Called(need_text(call.get("id"), f"{where}.id"), name, text(function.get("arguments")) or "{}")


def _thought(message: Payload) -> str | None:
    """Reasoning, which the protocol has no field for: servers have settled on one of these two names."""
    return text(message.get("reasoning_content")) or text(message.get("reasoning"))


def _stop(reason: Any, *, calls: bool) -> Stop:
    """The reason to stop; one that is not known is a plain stop. Some servers say that also of answers with calls."""
    known: Stop = reason if reason in _STOPS else "stop"
    return "tool_calls" if calls and known == "stop" else known


class ChatReader:
    """A stream. The reason to stop and the count of tokens come in two chunks, so the end waits for both."""

    def __init__(self) -> None:
        self._called = False
        self._started = False
        self._slots = CallSlots()
        self._stop: Stop | None = None
        self._answer: Payload = {}

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says."""
        if event.data.startswith("[DONE]"):
            return self.close()
        chunk = parse_object(event.data)
        if chunk is None:
            return []
        if chunk.get("error"):
            return read_failure(chunk)
        deltas: list[Delta] = [] if self._started else [_start(chunk)]
        self._started = True
        if isinstance(chunk.get("usage"), dict):
            self._answer = chunk
        for choice in items(chunk.get("choices")):
            deltas.extend(self._read_choice(table(choice)))
        return deltas

    def _read_choice(self, choice: Payload) -> list[Delta]:
        if choice.get("index"):
            raise Untranslatable("choices", "there have to be one")
        delta = table(choice.get("delta"))
        deltas: list[Delta] = []
        if thought := _thought(delta):
            deltas.append(Grown("reasoning", thought))
        if said := text(delta.get("content")):
            deltas.append(Grown("text", said))
        if refusal := text(delta.get("refusal")):
            deltas.append(Grown("refusal", refusal))
        for fragment in items(delta.get("tool_calls")):
            deltas.extend(self._read_call(table(fragment)))
        if reason := choice.get("finish_reason"):
            self._stop = _stop(reason, calls=self._called)
        return deltas

    def _read_call(self, fragment: Payload) -> list[Delta]:
        slot, new = self._slots.find(fragment)
        function = table(fragment.get("function"))
        deltas: list[Delta] = []
        if new:
            self._called = True
            deltas.append(
                CallStarted(slot, text(fragment.get("id")) or f"call_{slot}", text(function.get("name")) or "")
            )
        if arguments := text(function.get("arguments")):
            deltas.append(CallGrown(slot, arguments))
        return deltas

    def close(self) -> list[Delta]:
        """The end, once. Some servers leave out `[DONE]`, the mark by which this protocol ends a stream."""
        if self._stop is None:
            return []
        ended = Ended(self._stop, usage_of("openai_chat", self._answer))
        self._stop = None
        return [ended]


def _start(chunk: Payload) -> Started:
    """Every chunk repeats the head of the answer; the first one is believed."""
    return Started(text(chunk.get("id")) or "", text(chunk.get("model")) or "", count(chunk.get("created")))
