"""Streams as providers send them, one list of events for each situation."""

from typing import Any

from seatrial.gateway.base import SseEvent
from seatrial.untrusted.json import dump

DONE = SseEvent(None, "[DONE]")


def chat(*deltas: dict[str, Any], finish: str | None = "stop", usage: bool = True) -> list[SseEvent]:
    """A chat stream: one chunk for each delta, the reason it stopped, the count of tokens, the end."""
    chunks: list[dict[str, Any]] = [
        _chat_chunk([_choice(delta)]) for delta in ({"role": "assistant", "content": ""}, *deltas)
    ]
    if finish:
        chunks.append(_chat_chunk([_choice({}, finish)]))
    if usage:
        counts = {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}
        details = {"prompt_tokens_details": {"cached_tokens": 8}, "completion_tokens_details": {"reasoning_tokens": 3}}
        chunks.append({**_chat_chunk([]), "usage": {**counts, **details}})
    events = [SseEvent(None, dump(chunk)) for chunk in chunks]
    return [*events, DONE] if finish else events


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}


def _chat_chunk(choices: list[Any]) -> dict[str, Any]:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1714000000, "model": "gpt-x"}
    return {**head, "system_fingerprint": "fp_1", "choices": choices, "usage": None}


def chat_call(index: int, call_id: str, name: str) -> dict[str, Any]:
    """The first fragment of a tool call."""
    return {
        "tool_calls": [{"index": index, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}]
    }


def chat_arguments(index: int, fragment: str) -> dict[str, Any]:
    """A later fragment of a tool call."""
    return {"tool_calls": [{"index": index, "function": {"arguments": fragment}}]}


CHAT_TEXT = chat({"content": "Hel"}, {"content": "lo, wörld"})
CHAT_TOOLS = chat(
    {"content": "Let me look."},
    chat_call(0, "call_a", "ls"),
    chat_arguments(0, '{"pa'),
    chat_arguments(0, 'th":"."}'),
    chat_call(1, "call_b", "cat"),
    chat_arguments(1, '{"file":"a.txt"}'),
    finish="tool_calls",
)
CHAT_REASONING = chat({"reasoning_content": "Hm"}, {"reasoning_content": "m."}, {"content": "42"})
CHAT_CUT = CHAT_TOOLS[:5]
CHAT_ERROR = [*CHAT_TEXT[:2], SseEvent(None, dump({"error": {"message": "overloaded", "type": "server_error"}}))]


def anthropic(*events: dict[str, Any]) -> list[SseEvent]:
    """Events of Anthropic's, each named by its type."""
    return [SseEvent(event["type"], dump(event)) for event in events]


def _block(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def _text(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "text_delta", "text": piece} for piece in pieces]


def _json(*pieces: str) -> list[dict[str, Any]]:
    return [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def _message_start() -> dict[str, Any]:
    usage = {"input_tokens": 12, "cache_read_input_tokens": 8, "cache_creation_input_tokens": 0, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}


def _message_end(reason: str) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [{"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}}, {"type": "message_stop"}]


ANTHROPIC_TEXT = anthropic(
    _message_start(),
    {"type": "ping"},
    *_block(0, {"type": "text", "text": ""}, *_text("Hel", "lo, wörld")),
    *_message_end("end_turn"),
)
ANTHROPIC_TOOLS = anthropic(
    _message_start(),
    *_block(0, {"type": "text", "text": ""}, *_text("Let me look.")),
    *_block(1, {"type": "tool_use", "id": "call_a", "name": "ls", "input": {}}, *_json("", '{"pa', 'th":"."}')),
    *_block(2, {"type": "tool_use", "id": "call_b", "name": "cat", "input": {}}, *_json('{"file":"a.txt"}')),
    *_message_end("tool_use"),
)
ANTHROPIC_THINKING = anthropic(
    _message_start(),
    *_block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "thinking_delta", "thinking": "m."},
        {"type": "signature_delta", "signature": "c2ln"},
    ),
    *_block(1, {"type": "text", "text": ""}, *_text("42")),
    *_message_end("end_turn"),
)
ANTHROPIC_CUT = ANTHROPIC_TOOLS[:7]
ANTHROPIC_ERROR = [
    *ANTHROPIC_TEXT[:4],
    *anthropic({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}}),
]

_RESPONSE_USAGE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 3},
    "total_tokens": 29,
}


def response(status: str, *output: dict[str, Any], **extra: Any) -> dict[str, Any]:
    """A response of OpenAI's with these items."""
    head = {"id": "resp_1", "object": "response", "created_at": 1714000000, "model": "gpt-x", "status": status}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None}
    return {**head, **rest, "output": list(output), "usage": None, **extra}


def responses(*events: dict[str, Any]) -> list[SseEvent]:
    """Events of the responses API, numbered and named by their type."""
    return [SseEvent(event["type"], dump({**event, "sequence_number": i})) for i, event in enumerate(events)]


def _said(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}


def _message_events(index: int, *pieces: str) -> list[dict[str, Any]]:
    where = {"item_id": "msg_1", "output_index": index}
    started = {**_said(""), "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    text = "".join(pieces)
    full = {**part, "text": text}
    done = {"type": "response.output_text.done", **where, "content_index": 0, "text": text, "logprobs": []}
    delta = {"type": "response.output_text.delta", **where, "content_index": 0, "logprobs": []}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": started},
        {"type": "response.content_part.added", **where, "content_index": 0, "part": part},
        *({**delta, "delta": piece} for piece in pieces),
        done,
        {"type": "response.content_part.done", **where, "content_index": 0, "part": full},
        {"type": "response.output_item.done", "output_index": index, "item": _said(text)},
    ]


def _called(call_id: str, name: str, arguments: str, status: str = "completed") -> dict[str, Any]:
    head = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id}
    return {**head, "name": name, "arguments": arguments, "status": status}


def _call_events(index: int, call_id: str, name: str, *pieces: str) -> list[dict[str, Any]]:
    where = {"item_id": f"fc_{call_id}", "output_index": index}
    arguments = "".join(pieces)
    return [
        {
            "type": "response.output_item.added",
            "output_index": index,
            "item": _called(call_id, name, "", "in_progress"),
        },
        *({"type": "response.function_call_arguments.delta", **where, "delta": piece} for piece in pieces),
        {"type": "response.function_call_arguments.done", **where, "arguments": arguments, "name": name},
        {"type": "response.output_item.done", "output_index": index, "item": _called(call_id, name, arguments)},
    ]


def _reasoned(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}


def _reasoning_events(*pieces: str) -> list[dict[str, Any]]:
    where = {"item_id": "rs_1", "output_index": 0, "summary_index": 0}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": {**_reasoned(""), "summary": []}},
        {"type": "response.reasoning_summary_part.added", **where, "part": {"type": "summary_text", "text": ""}},
        *({"type": "response.reasoning_summary_text.delta", **where, "delta": piece} for piece in pieces),
        {"type": "response.output_item.done", "output_index": 0, "item": _reasoned("".join(pieces))},
    ]


_CREATED = {"type": "response.created", "response": response("in_progress")}


def _completed(*output: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.completed", "response": response("completed", *output, usage=_RESPONSE_USAGE)}


RESPONSES_TEXT = responses(_CREATED, *_message_events(0, "Hel", "lo, wörld"), _completed(_said("Hello, wörld")))
RESPONSES_TOOLS = responses(
    _CREATED,
    *_message_events(0, "Let me look."),
    *_call_events(1, "call_a", "ls", '{"pa', 'th":"."}'),
    *_call_events(2, "call_b", "cat", '{"file":"a.txt"}'),
    _completed(
        _said("Let me look."), _called("call_a", "ls", '{"path":"."}'), _called("call_b", "cat", '{"file":"a.txt"}')
    ),
)
RESPONSES_REASONING = responses(
    _CREATED, *_reasoning_events("Hm", "m."), *_message_events(1, "42"), _completed(_reasoned("Hmm."), _said("42"))
)
RESPONSES_CUT = RESPONSES_TOOLS[:9]
RESPONSES_ERROR = [
    *RESPONSES_TEXT[:4],
    *responses({"type": "error", "code": "server_error", "message": "overloaded", "param": None}),
]


def google(*parts: dict[str, Any], finish: str | None = "STOP") -> list[SseEvent]:
    """Events of Google's: one for each part, and the reason why it stopped with the count of tokens."""
    events = [_google_event([part]) for part in parts]
    counts = {"promptTokenCount": 20, "cachedContentTokenCount": 8, "candidatesTokenCount": 6, "thoughtsTokenCount": 3}
    if finish:
        events.append({**_google_event([], finishReason=finish), "usageMetadata": {**counts, "totalTokenCount": 29}})
    return [SseEvent(None, dump(event)) for event in events]


def _google_event(parts: list[dict[str, Any]], **beside: Any) -> dict[str, Any]:
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, **beside}
    return {"candidates": [candidate], "modelVersion": "gemini-x", "responseId": "resp_1"}


def _google_call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": arguments}}


GOOGLE_TEXT = google({"text": "Hel"}, {"text": "lo, wörld"})
GOOGLE_TOOLS = google(
    {"text": "Let me "},
    {"text": "look."},
    _google_call("call_a", "ls", path="."),
    _google_call("call_b", "cat", file="a.txt"),
)
GOOGLE_THINKING = google(
    {"text": "Hm", "thought": True},
    {"text": "m.", "thought": True},
    {"text": "42"},
    {"text": "", "thoughtSignature": "c2ln"},
)
GOOGLE_CUT = GOOGLE_TOOLS[:3]
GOOGLE_ERROR = [
    *GOOGLE_TEXT[:1],
    SseEvent(None, dump({"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}})),
]
