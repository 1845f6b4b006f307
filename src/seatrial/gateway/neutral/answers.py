"""Whole answers, read into neutral words.

Reading is lenient where requests are strict: extra fields of an answer stay in the record of the call, and an answer
that was paid for is not thrown away for them. Only content that has no neutral word is refused.
"""

from typing import Any, get_args

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import count, items, table, text
from seatrial.gateway.neutral.checks import arguments_text, need_list, need_table, need_text, tables
from seatrial.gateway.neutral.types import Answer, Called, Item, Reasoned, Refused, Said, Stop, Text, Untranslatable
from seatrial.model.trace import Dialect

ANTHROPIC_STOPS: dict[str, Stop] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
RESPONSES_STOPS: dict[str, Stop] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_CHAT_STOPS: tuple[Any, ...] = get_args(Stop)


def read_answer(response: Payload, dialect: Dialect) -> Answer:
    """The answer in neutral words. Raises Untranslatable."""
    found = need_table(response, "response")
    parts = {"openai_chat": _read_chat, "openai_responses": _read_responses, "anthropic": _read_anthropic}
    said, stop = parts[dialect](found)
    return Answer(
        id=text(found.get("id")) or "",
        model=text(found.get("model")) or "",
        items=tuple(said),
        stop=stop,
        usage=usage_of(dialect, found),
        created=count(found.get("created")) or int_of(found.get("created_at")),
    )


def int_of(value: Any) -> int:
    """A time in whole seconds; some servers give fractions."""
    return count(int(value)) if isinstance(value, int | float) and abs(value) < 2**53 else 0


def chat_stop(reason: Any) -> Stop:
    """The reason of a chat completion; one that is not known is a plain stop."""
    return reason if reason in _CHAT_STOPS else "stop"


def _read_chat(response: Payload) -> tuple[list[Item], Stop]:
    choices = need_list(response.get("choices"), "choices")
    if len(choices) != 1:
        raise Untranslatable("choices", f"there have to be one, not {len(choices)}")
    choice = need_table(choices[0], "choices[0]")
    message = need_table(choice.get("message"), "choices[0].message")
    said: list[Item] = []
    if thought := text(message.get("reasoning_content")) or text(message.get("reasoning")):
        said.append(Reasoned(thought))
    if words := text(message.get("content")):
        said.append(Said("assistant", (Text(words),)))
    if refusal := text(message.get("refusal")):
        said.append(Refused(refusal))
    for call, where in tables(message.get("tool_calls"), "tool_calls"):
        function = need_table(call.get("function"), f"{where}.function")
        name = need_text(function.get("name"), f"{where}.function.name")
        said.append(Called(need_text(call.get("id"), f"{where}.id"), name, text(function.get("arguments")) or "{}"))
    return said, chat_stop(choice.get("finish_reason"))


def _read_anthropic(response: Payload) -> tuple[list[Item], Stop]:
    said: list[Item] = []
    for block, where in tables(response.get("content"), "content"):
        kind = block.get("type")
        if kind == "text":
            said.append(Said("assistant", (Text(need_text(block.get("text"), f"{where}.text")),)))
        elif kind == "thinking":
            said.append(Reasoned(text(block.get("thinking")) or ""))
        elif kind == "tool_use":
            given = need_table(block.get("input"), f"{where}.input")
            names = [need_text(block.get(name), f"{where}.{name}") for name in ("id", "name")]
            said.append(Called(names[0], names[1], arguments_text(given, f"{where}.input")))
        elif kind != "redacted_thinking":  # nobody but Anthropic can read that
            raise Untranslatable(f"{where}.type", f"there is no place for blocks of the type {kind!r}")
    return said, ANTHROPIC_STOPS.get(str(response.get("stop_reason")), "stop")


def _read_responses(response: Payload) -> tuple[list[Item], Stop]:
    said: list[Item] = []
    for item, where in tables(response.get("output"), "output"):
        said.extend(_read_output(item, where))
    reason = table(response.get("incomplete_details")).get("reason")
    called = any(isinstance(item, Called) for item in said)
    return said, RESPONSES_STOPS.get(str(reason), "tool_calls" if called else "stop")


def _read_output(item: Payload, where: str) -> list[Item]:
    kind = item.get("type")
    if kind == "message":
        return [_read_part(*found) for found in tables(item.get("content"), f"{where}.content")]
    if kind == "function_call":
        names = ("call_id", "name", "arguments")
        return [Called(*(need_text(item.get(name), f"{where}.{name}") for name in names))]
    if kind == "reasoning":
        parts = [table(part) for part in [*items(item.get("content")), *items(item.get("summary"))]]
        return [Reasoned("".join(text(part.get("text")) or "" for part in parts))]
    raise Untranslatable(f"{where}.type", f"there is no place for items of the type {kind!r}")


def _read_part(part: Payload, where: str) -> Item:
    if part.get("type") == "refusal":
        return Refused(need_text(part.get("refusal"), f"{where}.refusal"))
    if part.get("type") != "output_text":
        raise Untranslatable(f"{where}.type", f"content of the type {part.get('type')!r} is not text")
    return Said("assistant", (Text(need_text(part.get("text"), f"{where}.text")),))
