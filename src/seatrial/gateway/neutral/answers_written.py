"""Whole answers, written from neutral words."""

from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.neutral.checks import arguments_object
from seatrial.gateway.neutral.types import Answer, Called, Item, Reasoned, Refused, Said, Stop, Text, Untranslatable
from seatrial.model.trace import Dialect, TokenUsage

ANTHROPIC_WORDS: dict[Stop, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
RESPONSES_REASONS: dict[Stop, str] = {"length": "max_output_tokens", "content_filter": "content_filter"}


def write_answer(answer: Answer, dialect: Dialect) -> Payload:
    """The answer in this dialect. Raises Untranslatable."""
    writers = {"openai_chat": _write_chat, "openai_responses": _write_responses, "anthropic": _write_anthropic}
    return writers[dialect](answer)


def chat_usage(usage: TokenUsage) -> Payload:
    """What was consumed, in the words of chat completions."""
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def responses_usage(usage: TokenUsage) -> Payload:
    """What was consumed, in the words of the responses API."""
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def anthropic_usage(usage: TokenUsage | None) -> Payload:
    """What was consumed, in Anthropic's words, which have to be said and count cached tokens apart."""
    found = usage or TokenUsage()
    thought = {"output_tokens_details": {"thinking_tokens": found.reasoning_tokens}} if found.reasoning_tokens else {}
    return {
        "input_tokens": max(found.input_tokens - found.cached_tokens, 0),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": found.cached_tokens,
        "output_tokens": found.output_tokens,
        **thought,
    }


def _joined(items: tuple[Item, ...], kind: type[Reasoned | Refused]) -> str:
    return "".join(item.text for item in items if isinstance(item, kind))


def spoken(item: Said) -> str:
    """The text of what the model said; it says nothing but text."""
    return "".join(part.text for part in item.parts if isinstance(part, Text))


def _write_chat(answer: Answer) -> Payload:
    """One message: chat completions have no order between text and tool calls."""
    text = "".join(spoken(item) for item in answer.items if isinstance(item, Said))
    message: Payload = {"role": "assistant", "content": text or None, "refusal": _joined(answer.items, Refused) or None}
    if thought := _joined(answer.items, Reasoned):
        message["reasoning_content"] = thought
    calls = [
        {"id": item.id, "type": "function", "function": {"name": item.name, "arguments": item.arguments}}
        for item in answer.items
        if isinstance(item, Called)
    ]
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.stop}
    head = {"id": answer.id, "object": "chat.completion", "created": answer.created, "model": answer.model}
    return {**head, "choices": [choice], "usage": chat_usage(answer.usage) if answer.usage else None}


def _write_anthropic(answer: Answer) -> Payload:
    refused = any(isinstance(item, Refused) for item in answer.items)
    return {
        "id": answer.id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [_write_block(item, answer.stop) for item in answer.items],
        "stop_reason": "refusal" if refused else ANTHROPIC_WORDS[answer.stop],
        "stop_sequence": None,
        "usage": anthropic_usage(answer.usage),
    }


def _write_block(item: Item, stop: Stop) -> Payload:
    if isinstance(item, Said):
        return {"type": "text", "text": spoken(item)}
    if isinstance(item, Refused):
        return {"type": "text", "text": item.text}
    if isinstance(item, Reasoned):
        return {"type": "thinking", "thinking": item.text, "signature": ""}
    if isinstance(item, Called):
        return {"type": "tool_use", "id": item.id, "name": item.name, "input": _input(item, stop)}
    raise Untranslatable("tool results", "they are no part of an answer")


def _input(call: Called, stop: Stop) -> Payload:
    try:
        return arguments_object(call.arguments, f"arguments of {call.name}")
    except Untranslatable:
        if stop == "length":  # cut in the middle of its arguments, as Anthropic's own models are
            return {}
        raise


def _write_responses(answer: Answer) -> Payload:
    output = [write_output(item, f"{answer.id}_{i}") for i, item in enumerate(answer.items)]
    return write_response(answer, output, "incomplete" if answer.stop in RESPONSES_REASONS else "completed")


def write_response(answer: Answer, output: list[Payload], status: str) -> Payload:
    """The object around the output. Of the request it repeats nothing: an answer translated does not know it."""
    reason = RESPONSES_REASONS.get(answer.stop) if status == "incomplete" else None
    return {
        "id": answer.id,
        "object": "response",
        "created_at": answer.created,
        "model": answer.model,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": responses_usage(answer.usage) if answer.usage else None,
    }


def write_output(item: Item, item_id: str, status: str = "completed") -> Payload:
    """One item of an output."""
    if isinstance(item, Called):
        head = {"type": "function_call", "id": f"fc_{item_id}", "call_id": item.id, "name": item.name}
        return {**head, "arguments": item.arguments, "status": status}
    if isinstance(item, Reasoned):
        content = [{"type": "reasoning_text", "text": item.text}]
        return {"type": "reasoning", "id": f"rs_{item_id}", "summary": [], "content": content, "status": status}
    if isinstance(item, Refused):
        part: Payload = {"type": "refusal", "refusal": item.text}
    elif isinstance(item, Said):
        part = {"type": "output_text", "text": spoken(item), "annotations": [], "logprobs": []}
    else:
        raise Untranslatable("tool results", "they are no part of an answer")
    head = {"type": "message", "id": f"msg_{item_id}", "role": "assistant"}
    return {**head, "status": status, "content": [part]}
