"""Anthropic's messages."""

from collections.abc import Mapping
from typing import Any

import orjson

from seatrial.gateway.base import SseEvent
from seatrial.gateway.dialects.base import Dialect, Provider
from seatrial.gateway.fields import Payload, ToldError, garbled, overridden, told_error
from seatrial.gateway.neutral.anthropic_answers import (
    AnthropicReader,
    AnthropicWriter,
    counts,
    read_content,
    split_answer,
    write_answer,
)
from seatrial.gateway.neutral.anthropic_requests import NAMES, read_request, write_request
from seatrial.model.trace import CallErrorKind
from seatrial.untrusted.json import dump, mapping, parse_object, text, whole_number

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_THOUGHT = ("effort", "thinking")


def check(payload: Any) -> str | None:
    if not isinstance(payload, dict):
        return "the body is not a JSON object"
    if not isinstance(payload.get("messages"), list):
        return "messages: field required, as an array"
    return None


def with_overrides(payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
    """The request with the run's values where they are set. There is no seed here."""
    values = {name: sampling.get(name) for name in ("temperature", "top_p", "max_tokens")}
    stop = sampling.get("stop")
    values["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    return overridden(payload, model, values)


def holds_answer(response: Any) -> bool:
    """Whether there is an answer of a model in it, which may be that it has nothing to say."""
    return isinstance(mapping(response).get("content"), list)


def finish_reason(response: Any) -> str | None:
    return text(mapping(response).get("stop_reason"))


def error_body(status: int, kind: CallErrorKind, message: str) -> Payload:
    """The body of an error answer; its type follows from the status alone."""
    name = _ERROR_TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": name, "message": message}}


def error_event(status: int, kind: CallErrorKind, message: str) -> SseEvent:
    return SseEvent("error", dump(error_body(status, kind, message)))


def model_entry(model: str) -> Payload:
    return {"type": "model", "id": model, "display_name": model, "created_at": "1970-01-01T00:00:00Z"}


def is_error(body: Payload) -> bool:
    return body.get("type") == "error"


def probe(words: str, most: int | None) -> Payload:
    return {"messages": [{"role": "user", "content": words}], "max_tokens": most or 16}


class AnthropicAssembler:
    """The StreamAssembler of messages."""

    def __init__(self) -> None:
        self.first_token = False
        self.finished = False
        self.error: ToldError | None = None
        self.garbled: str | None = None
        self._message: Payload | None = None
        self._usage: Payload = {}
        self._blocks: dict[int, _Block] = {}

    def feed(self, event: SseEvent) -> None:
        parsed = parse_object(event.data)
        if parsed is None:
            self.garbled = self.garbled or garbled(event.data)
            return
        kind = parsed.get("type")
        if kind == "content_block_delta":
            self._take_delta(parsed)
        elif kind == "content_block_start":
            self._blocks[_index(parsed)] = _Block(mapping(parsed.get("content_block")))
        elif kind == "message_start":
            self._message = dict(mapping(parsed.get("message")))
            self._count(self._message.get("usage"))
        elif kind == "message_delta":
            self._take_end(parsed)
        elif kind == "message_stop":
            self.finished = True
        elif kind == "error":
            self.error = told_error(parsed)

    def skim(self, whole: str) -> bool:
        """No: every event says where its text belongs."""
        return False

    def _take_delta(self, parsed: Payload) -> None:
        delta = parsed.get("delta")
        if not isinstance(delta, dict):
            return
        index = _index(parsed)
        block = self._blocks.get(index)
        if block is None:
            block = self._blocks[index] = _Block({})
        block.take(delta)
        self.first_token = True

    def _take_end(self, parsed: Payload) -> None:
        message = self._message = self._message or {}
        message.update({name: value for name, value in mapping(parsed.get("delta")).items() if value is not None})
        extra = {"type", "delta", "usage"}
        message.update({name: value for name, value in parsed.items() if name not in extra and value is not None})
        self._count(parsed.get("usage"))

    def _count(self, usage: Any) -> None:
        """Later counts replace earlier ones: they are totals, not additions."""
        self._usage.update({name: value for name, value in mapping(usage).items() if value is not None})

    def response(self) -> Payload | None:
        if self._message is None and not self._blocks:
            return None
        content = [self._blocks[index].whole() for index in sorted(self._blocks)]
        base = {"type": "message", "role": "assistant", "stop_reason": None, "stop_sequence": None}
        return {**base, **(self._message or {}), "content": content, "usage": dict(self._usage)}


def _index(parsed: Payload) -> int:
    return whole_number(parsed.get("index")) or 0


class _Block:
    """One block of content. A delta's text grows the block's field of the same name, whatever the field is."""

    __slots__ = ("_citations", "_pieces", "_start")

    def __init__(self, start: Payload) -> None:
        self._start = start
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Any] = []

    def take(self, delta: Payload) -> None:
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "citation":
                self._citations.append(value)
            elif isinstance(value, str):
                pieces = self._pieces.get(name)
                if pieces is None:
                    self._pieces[name] = [value]
                else:
                    pieces.append(value)
            elif value is not None:
                self._start[name] = value

    def whole(self) -> Payload:
        block = dict(self._start)
        for name, pieces in self._pieces.items():
            grown = "".join(pieces)
            if name == "partial_json":
                block.update(_input(grown))
            else:
                before = block.get(name)
                block[name] = before + grown if isinstance(before, str) else grown
        if self._citations:
            before = block.get("citations")
            block["citations"] = [*(before if isinstance(before, list) else []), *self._citations]
        return block


def _input(arguments: str) -> Payload:
    """The input of a tool call. One that was cut cannot be parsed and is kept as the text it is."""
    if not arguments:
        return {}
    try:
        return {"input": orjson.loads(arguments)}
    except ValueError:
        return {"partial_json": arguments}


DIALECT = Dialect(
    name="anthropic",
    title="Anthropic's messages",
    provider=Provider(
        "anthropic", "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), url_variables=("ANTHROPIC_BASE_URL",)
    ),
    path="/v1/messages",
    count_path="/v1/messages/count_tokens",
    key_header=("x-api-key", ""),
    default_headers={"anthropic-version": "2023-06-01"},
    header_prefix="anthropic-",
    forwarded_headers=("anthropic-",),
    check=check,
    with_overrides=with_overrides,
    probe=probe,
    content_fields=frozenset({"messages", "metadata", "system"}),
    request_fields=frozenset(
        {"betas", "cache_control", "container", "context_management", "effort", "inference_geo", "mcp_servers", "model"}
        | {
            "output_config",
            "output_format",
            "service_tier",
            "speed",
            "stop_sequences",
            "thinking",
            "tool_choice",
            "tools",
        }
    ),
    volatile_fields=frozenset({"cache_control", "metadata", "stream"}),
    output_limits=("max_tokens",),
    input_fields=frozenset({"messages", "system"}),
    plain_blocks=frozenset({"redacted_thinking", "text", "thinking", "tool_result", "tool_use"}),
    answer_field="content",
    holds_answer=holds_answer,
    counts=counts,
    finish_reason=finish_reason,
    assembler=AnthropicAssembler,
    error_body=error_body,
    error_event=error_event,
    is_error=is_error,
    error_statuses={"overloaded_error": 529, "rate_limit_error": 429},
    refusable={
        "effort": _THOUGHT,
        "output_config.effort": _THOUGHT,
        "thinking": _THOUGHT,
        "top_p": ("top_p",),  # newer models refuse it beside a temperature, and agents of other dialects send both
    },
    field_names=NAMES,
    read_request=read_request,
    write_request=write_request,
    read_content=read_content,
    write_answer=write_answer,
    split_answer=split_answer,
    reader=AnthropicReader,
    writer=AnthropicWriter,
    model_entry=model_entry,
    id_prefixes=("msg_", "toolu_"),
    arguments_are_objects=True,
)
