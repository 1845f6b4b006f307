"""Answers of OpenAI's chat completions, whole or as a stream: read into neutral words and written from them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

from seatrial.gateway.base import SseEvent, TokenCounts
from seatrial.gateway.fields import Payload, as_usage, counted, with_cache_writes
from seatrial.gateway.neutral.checks import need_list, need_table, need_text, pieces, read_failure, tables
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
from seatrial.untrusted.json import count, dump, items, mapping, parse_object, text, whole_number

_STOPS: tuple[Any, ...] = get_args(Stop)  # the neutral words are those of this dialect


def read_content(response: Payload) -> tuple[list[Item], Stop]:
    choices = need_list(response.get("choices"), "choices")
    if len(choices) != 1:
        raise Untranslatable("choices", f"there have to be one, not {len(choices)}")
    choice = need_table(choices[0], "choices[0]")
    message = need_table(choice.get("message"), "choices[0].message")
    said: list[Item] = []
    if thought := _thought(message):
        said.append(Reasoning(thought))
    if words := text(message.get("content")):
        said.append(Message("assistant", (words,)))
    if refusal := text(message.get("refusal")):
        said.append(Refusal(refusal))
    calls = [_read_call(*found) for found in tables(message.get("tool_calls"), "tool_calls")]
    return [*said, *calls], _stop(choice.get("finish_reason"), calls=bool(calls))


def _read_call(call: Payload, where: str) -> ToolCall:
    function = need_table(call.get("function"), f"{where}.function")
    name = need_text(function.get("name"), f"{where}.function.name")
    return ToolCall(need_text(call.get("id"), f"{where}.id"), name, text(function.get("arguments")) or "{}")


def _thought(message: Payload) -> str | None:
    """Reasoning, which the protocol has no field for: servers have settled on one of these two names."""
    return text(message.get("reasoning_content")) or text(message.get("reasoning"))


def _stop(reason: Any, *, calls: bool) -> Stop:
    """The reason to stop; one that is not known is a plain stop. Some servers say that also of answers with calls."""
    known: Stop = reason if reason in _STOPS else "stop"
    return "tool_calls" if calls and known == "stop" else known


class CallSlots:
    """Which tool call a fragment belongs to: by its index, with two habits of other servers allowed for.

    Some leave the index out, and some number all parallel calls 0 and tell them apart by id and name.
    """

    def __init__(self) -> None:
        self._by_index: dict[Any, int] = {}
        self._ids: list[Any] = []

    def find(self, fragment: Payload) -> tuple[int, bool]:
        """The position of the call, and whether this fragment is its first."""
        index, call_id = whole_number(fragment.get("index")), fragment.get("id") or None
        slot = self._by_index.get(index)
        begins = bool(call_id and mapping(fragment.get("function")).get("name"))
        if slot is None or (begins and call_id != self._ids[slot]):
            slot = self._by_index[index] = len(self._ids)
            self._ids.append(call_id)
            return slot, True
        return slot, False


class ChatReader:
    """A stream. The reason to stop and the count of tokens come in two chunks, so the end waits for both."""

    def __init__(self) -> None:
        self._called = False
        self._started = False
        self._slots = CallSlots()
        self._stop: Stop | None = None
        self._answer: Payload = {}

    def read(self, event: SseEvent) -> list[Delta]:
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
            deltas.extend(self._read_choice(mapping(choice)))
        return deltas

    def _read_choice(self, choice: Payload) -> list[Delta]:
        if choice.get("index"):
            raise Untranslatable("choices", "there have to be one")
        delta = mapping(choice.get("delta"))
        deltas: list[Delta] = []
        if thought := _thought(delta):
            deltas.append(TextDelta("reasoning", thought))
        if said := text(delta.get("content")):
            deltas.append(TextDelta("text", said))
        if refusal := text(delta.get("refusal")):
            deltas.append(TextDelta("refusal", refusal))
        for fragment in items(delta.get("tool_calls")):
            deltas.extend(self._read_call(mapping(fragment)))
        if reason := choice.get("finish_reason"):
            self._stop = _stop(reason, calls=self._called)
        return deltas

    def _read_call(self, fragment: Payload) -> list[Delta]:
        slot, new = self._slots.find(fragment)
        function = mapping(fragment.get("function"))
        deltas: list[Delta] = []
        if new:
            self._called = True
            deltas.append(
                CallStarted(slot, text(fragment.get("id")) or f"call_{slot}", text(function.get("name")) or "")
            )
        if arguments := text(function.get("arguments")):
            deltas.append(CallDelta(slot, arguments))
        return deltas

    def close(self) -> list[Delta]:
        """The end, once. Some servers leave out `[DONE]`, the mark by which this protocol ends a stream."""
        if self._stop is None:
            return []
        ended = Ended(self._stop, as_usage(counts(self._answer)))
        self._stop = None
        return [ended]


def _start(chunk: Payload) -> Started:
    """Every chunk repeats the head of the answer; the first one is believed."""
    return Started(text(chunk.get("id")) or "", text(chunk.get("model")) or "", (count(chunk.get("created")) or 0))


def counts(response: Any) -> TokenCounts | None:
    found = response.get("usage") if isinstance(response, dict) else None
    if not found or not isinstance(found, dict):
        return None
    details = mapping(found.get("prompt_tokens_details"))
    counts = counted(
        found.get("prompt_tokens"),
        details.get("cached_tokens"),
        found.get("completion_tokens", None if "choices" in response else 0),  # vectors have none
        mapping(found.get("completion_tokens_details")).get("reasoning_tokens"),
    )
    stored = details.get("cache_write_tokens")
    return with_cache_writes(counts, stored) if stored else counts


# Writing: a whole answer, one that grows, and a whole one cut into a stream.

_FIELDS = {"reasoning": "reasoning_content", "text": "content", "refusal": "refusal"}
_SPLIT = (_FIELDS["reasoning"], "reasoning", _FIELDS["text"], _FIELDS["refusal"])
"""Fields of a message that stream as text, piece by piece, in the order in which they come."""

_DONE = SseEvent(None, "[DONE]")  # clients read on until this mark, which is no JSON


def write_answer(answer: Answer) -> Payload:
    """A `chat.completion`. It has one message, in which text and tool calls have no order between them."""
    calls = [_call(item) for item in answer.items if isinstance(item, ToolCall)]
    said = any(isinstance(item, Message) for item in answer.items)
    message: Payload = {"role": "assistant", "content": _joined(answer.items, Message) if said else None}
    message["refusal"] = _joined(answer.items, Refusal) or None
    if thought := _joined(answer.items, Reasoning):
        message[_FIELDS["reasoning"]] = thought
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.stop}
    usage = _usage(answer.usage) if answer.usage else None
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": usage}


def _joined(items: Iterable[Item], kind: type[Message | Reasoning | Refusal]) -> str:
    return "".join(item.text for item in items if isinstance(item, kind))


class ChatWriter:
    """A stream. The count of tokens is always written; `hides` takes it out when nobody asked for it."""

    def __init__(self) -> None:
        self._head = _head(Started("", ""), "chat.completion.chunk")

    def write(self, delta: Delta) -> list[SseEvent]:
        if isinstance(delta, TextDelta):
            return [self._chunk({_FIELDS[delta.kind]: delta.text})]
        if isinstance(delta, CallDelta):
            return [self._chunk(_more_arguments(delta.slot, delta.text))]
        if isinstance(delta, CallStarted):
            return [self._chunk(_call_begun(delta.slot, _call(ToolCall(delta.id, delta.name, ""))))]
        if isinstance(delta, Started):
            self._head = _head(delta, "chat.completion.chunk")
            return [self._chunk({"role": "assistant", "content": ""})]
        if isinstance(delta, SignatureDelta):
            return []
        return self._end(delta) if isinstance(delta, Ended) else []

    def _end(self, ended: Ended) -> list[SseEvent]:
        counted = [_usage_chunk(self._head, _usage(ended.usage))] if ended.usage else []
        return [self._chunk({}, ended.stop), *counted, _DONE]

    def _chunk(self, delta: Payload, finish: str | None = None) -> SseEvent:
        return _chunk(self._head, {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish})


def split_answer(response: Mapping[str, Any]) -> Iterator[SseEvent]:
    """The chunks of a `chat.completion`, fields of other servers included."""
    head = {key: value for key, value in response.items() if key not in {"choices", "usage"}}
    head["object"] = "chat.completion.chunk"
    for choice in response["choices"]:
        for delta in _deltas(choice["message"]):
            yield _chunk(head, {"index": choice["index"], "delta": delta, "finish_reason": None})
        rest = {key: value for key, value in choice.items() if key != "message"}
        yield _chunk(head, {**rest, "delta": {}})
    if response.get("usage"):
        yield _usage_chunk(head, response["usage"])
    yield _DONE


def _deltas(message: Mapping[str, Any]) -> Iterator[Payload]:
    whole = {key: value for key, value in message.items() if key not in _SPLIT and key != "tool_calls"}
    yield {**whole, "content": "" if message.get("content") is not None else None}
    for field in _SPLIT:
        value = message.get(field)
        if isinstance(value, str):
            yield from ({field: piece} for piece in pieces(value))
        elif value is not None:
            yield {field: value}
    for slot, call in enumerate(message.get("tool_calls") or []):
        yield _call_begun(slot, call)
        yield from (
            _more_arguments(slot, piece) for piece in pieces((call.get("function") or {}).get("arguments") or "")
        )


def _head(answer: Answer | Started, kind: str) -> Payload:
    return {"id": answer.id, "object": kind, "created": answer.created, "model": answer.model}


def _call(call: ToolCall) -> Payload:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _call_begun(slot: int, call: Payload) -> Payload:
    """The first delta of a call; of kinds other than functions, which nobody cuts, it is the only one."""
    function = {"function": {**call["function"], "arguments": ""}} if call.get("function") is not None else {}
    return {"tool_calls": [{"index": slot, **call, **function}]}


def _more_arguments(slot: int, text: str) -> Payload:
    return {"tool_calls": [{"index": slot, "function": {"arguments": text}}]}


def _chunk(head: Payload, choice: Payload) -> SseEvent:
    return SseEvent(None, dump({**head, "choices": [choice]}))


def _usage_chunk(head: Payload, usage: Any) -> SseEvent:
    """Usage comes in a chunk of its own, after the last choice, and that chunk has no choices."""
    return SseEvent(None, dump({**head, "choices": [], "usage": usage}))


def _usage(usage: TokenUsage) -> Payload:
    stored = {"cache_write_tokens": usage.cache_write_tokens} if usage.cache_write_tokens else {}
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, **stored},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
