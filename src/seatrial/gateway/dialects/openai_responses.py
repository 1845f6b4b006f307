"""OpenAI's responses.

The last event of a stream holds the whole answer. What comes before it is kept all the same: a stream may be cut, and
some servers leave the output out of their last event.
"""

from collections.abc import Mapping
from typing import Any

from seatrial.gateway.base import SseEvent
from seatrial.gateway.dialects.base import Dialect
from seatrial.gateway.dialects.openai_chat import OPENAI, error_body
from seatrial.gateway.fields import Payload, ToldError, garbled, overridden, told_error
from seatrial.gateway.neutral.openai_responses_answers import (
    ResponsesReader,
    ResponsesWriter,
    counts,
    read_content,
    split_answer,
    write_answer,
)
from seatrial.gateway.neutral.openai_responses_requests import NAMES, agent_tools, read_request, write_request
from seatrial.model.trace import CallErrorKind
from seatrial.untrusted.json import dump, items, mapping, parse_object, text, whole_number

_INSTEAD_OF_INPUT = ("previous_response_id", "prompt", "conversation")
_LEAST_OUTPUT = 16  # tokens; the API takes no lower limit
_THOUGHT = ("effort", "thinking")
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


def check(payload: Any) -> str | None:
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    if payload.get("background"):
        return "`background` is true: an answer that is fetched later cannot be had here; leave it out, or stream"
    given = payload.get("input")
    if given is None and any(payload.get(name) is not None for name in _INSTEAD_OF_INPUT):
        return None
    return None if isinstance(given, str | list) else "`input` is missing or neither text nor an array"


def messages(payload: Payload) -> list[Any]:
    """The conversation of a request. Input that is text counts as one message; `instructions` do not."""
    given = payload.get("input")
    if isinstance(given, str):
        return [given]
    return given if isinstance(given, list) else []


def without_messages(payload: Payload) -> Payload:
    return {name: value for name, value in payload.items() if name != "input"}


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set. There are no seed and no stop here."""
    values = {name: sampling.get(name) for name in ("temperature", "top_p")}
    return overridden(payload, model, {**values, "max_output_tokens": sampling.get("max_tokens")})


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it. One that failed has an error, and an empty output beside it."""
    output = mapping(response).get("output")
    return isinstance(output, list) and (bool(output) or told_error(response) is None)


def finish_reason(response: Any) -> str | None:
    """Why the model stopped: the reason of an incomplete answer, else its status."""
    answer = mapping(response)
    return text(mapping(answer.get("incomplete_details")).get("reason")) or text(answer.get("status"))


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    """An error in the middle of a stream, both as documented and as sent, which is what the SDK raises."""
    error = error_body(status, kind, message)["error"]
    flat = {"type": "error", "code": error["code"] or error["type"], "message": message, "param": None}
    return SseEvent("error", dump({**flat, "sequence_number": 0, "error": error}))


def probe(words: str, most: int | None) -> Payload:
    return {"input": words, "max_output_tokens": max(most, _LEAST_OUTPUT)} if most else {"input": words}


def count_answer(count: int) -> Payload:
    return {"object": "response.input_tokens", "input_tokens": count}


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
            self._take_snapshot(kind, mapping(parsed.get("response")))
        elif kind in _ITEMS:
            self._take_item(kind, _index(parsed), mapping(parsed.get("item")))
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
        if self._snapshot is None and not self._items:
            return None
        answer = {"object": "response", **(self._snapshot or {})}
        if not self.finished or not items(answer.get("output")):
            answer["output"] = [self._items[index].whole() for index in sorted(self._items)]
        return answer


def _index(parsed: Payload) -> int:
    return whole_number(parsed.get("output_index")) or 0


class _Item:
    """One item of the output while it grows."""

    __slots__ = ("_grown", "_logprobs", "_parts", "_start")

    def __init__(self, start: Payload) -> None:
        self._start = start
        self._parts: dict[tuple[str, int], Payload] = {}
        self._grown: dict[tuple[str | None, int, str], list[str]] = {}
        self._logprobs: dict[int, list[Any]] = {}

    def start_part(self, place: str, index_name: str, parsed: Payload) -> None:
        self._parts[place, whole_number(parsed.get(index_name)) or 0] = mapping(parsed.get("part"))

    def grow(self, kind: str, delta: str, parsed: Payload) -> None:
        place, index_name, field = _DELTAS[kind]
        index = 0
        if place is not None:
            index = whole_number(parsed.get(index_name)) or 0
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


DIALECT = Dialect(
    name="openai_responses",
    title="OpenAI's responses",
    provider=OPENAI,
    path="/v1/responses",
    tries_websocket=True,  # as Codex does
    count_path="/v1/responses/input_tokens",
    count_answer=count_answer,
    header_prefix="openai-",
    forwarded_headers=("openai-beta",),
    check=check,
    messages=messages,
    without_messages=without_messages,
    with_overrides=with_overrides,
    probe=probe,
    content_fields=frozenset({"client_metadata", "input", "instructions", "metadata"}),
    request_fields=frozenset(
        {"background", "context_management", "conversation", "include", "model", "parallel_tool_calls", "prompt"}
        | {"previous_response_id", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning"}
        | {"safety_identifier", "service_tier", "stream_options", "text", "tool_choice", "tools", "truncation", "user"}
    ),
    volatile_fields=frozenset(
        {"client_metadata", "metadata", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "stream"}
        | {"safety_identifier", "stream_options", "user"}
    ),
    output_limits=("max_output_tokens",),
    input_fields=frozenset({"input"}),
    external_input=frozenset({"conversation", "previous_response_id", "prompt"}),
    plain_blocks=frozenset(
        {"custom", "custom_tool_call", "custom_tool_call_output", "function", "function_call", "function_call_output"}
        | {"input_text", "local_shell_call", "local_shell_call_output", "message", "output_text", "reasoning"}
        | {"reasoning_text", "refusal", "summary_text"}
    ),
    answer_field="output",
    holds_answer=holds_answer,
    counts=counts,
    finish_reason=finish_reason,
    assembler=ResponsesAssembler,
    error_body=error_body,
    error_event=error_event,
    refusable={
        "reasoning": _THOUGHT,
        "encrypted content": _THOUGHT,
        "include": _THOUGHT,
        "text.verbosity": ("verbosity",),
        "parallel_tool_calls": ("parallel",),
    },
    field_names=NAMES,
    read_request=read_request,
    write_request=write_request,
    agent_tools=agent_tools,
    read_content=read_content,
    write_answer=write_answer,
    split_answer=split_answer,
    reader=ResponsesReader,
    writer=ResponsesWriter,
)
