"""A model's conversation as words: who said what, whichever dialect it was said in.

Messages and answers are strangers' text in strangers' form. What is not understood is shown as the JSON it is, so that
nothing is left out; lines come out harmless.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from seatrial.model.trace import CallError, ModelCall
from seatrial.report.text import cache_use, counted, format_cost, format_duration, harmless, harmless_lines

_MOST_CHARACTERS = 400  # of one line
_MOST_LINES = 24
_WORTH_TELLING_SEC = 1.0
_LOOKED_AT = ("image", "image_url", "input_image", "document", "input_file", "file", "input_audio")


class Utterance(NamedTuple):
    """Something somebody said: `who` is a role or what kind of thing it is."""

    who: str
    text: str


def headline(call: ModelCall) -> str:
    """The facts of a call on one line."""
    model = call.upstream_model or call.model or "no model"
    asked = f" (asked for {call.model})" if call.model and call.model != model else ""
    parts = [f"call {call.index}", model + asked, "no answer" if call.status is None else str(call.status)]
    if call.finish_reason:
        parts.append(call.finish_reason)
    if usage := call.usage:
        cache = cache_use(usage.cached_tokens, usage.cache_write_tokens)
        parts += [f"{usage.input_tokens:,} in{cache}, {usage.output_tokens:,} out", _price(call)]
    first = "" if call.first_token_sec is None else f"first token {format_duration(call.first_token_sec)}, "
    parts.append(f"{first}{format_duration(call.duration_sec)}")
    if call.retry_of is not None:
        parts.append(f"repeats call {call.retry_of}")
    if call.error:
        parts.append(f"{call.error.kind} error{_ending(call.error)}: {call.error.message}")
    return harmless(" · ".join(parts))


def _ending(error: CallError) -> str:
    """Who ended the call, and what nobody could hear before that."""
    silent = (
        ""
        if (error.silent_sec or 0.0) < _WORTH_TELLING_SEC
        else f" after {format_duration(error.silent_sec or 0.0)} of silence"
    )
    return f", ended by {error.ended_by}{silent}" if error.ended_by else ""


def _price(call: ModelCall) -> str:
    return "cost not known" if call.cost_usd is None else format_cost(call.cost_usd)


def told(messages: Iterable[Any]) -> list[Utterance]:
    """What messages say, in any dialect."""
    return [said for message in messages for said in _message(message)]


def answer(response: Any) -> list[Utterance]:
    """What an answer says, in any dialect."""
    if not isinstance(response, dict):
        return []
    choices, output = response.get("choices"), response.get("output")
    if isinstance(choices, list):
        return told(choice["message"] if _has_message(choice) else choice for choice in choices)
    if isinstance(output, list):
        return told(output)
    if "content" in response:
        return told([{"role": response.get("role", "assistant"), "content": response["content"]}])
    return [Utterance("answer", _json(response))]


def _has_message(choice: Any) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def block(said: Utterance, *, cut: bool) -> list[str]:
    """Something said as lines, the first with its speaker; long ones cut in the middle if that is wanted."""
    lines = harmless_lines(said.text)
    lines = _cut(lines) if cut else lines
    label = f"{harmless(said.who)[:24]:<11} "
    return [f"{' ' * 12 if number else label}{line}".rstrip() for number, line in enumerate(lines)]


def _cut(lines: list[str]) -> list[str]:
    if len(lines) > _MOST_LINES:
        left = len(lines) - _MOST_LINES
        head, tail = lines[: _MOST_LINES // 2], lines[-_MOST_LINES // 2 :]
        lines = [*head, f"… {counted(left, 'more line')}; --full shows them …", *tail]
    return [_cut_line(line) for line in lines]


def _cut_line(line: str) -> str:
    left = len(line) - _MOST_CHARACTERS
    return line if left <= 0 else f"{line[:_MOST_CHARACTERS]}… {counted(left, 'more character')}; --full shows them"


def _message(message: Any) -> Iterator[Utterance]:
    if not isinstance(message, dict):
        yield Utterance("user" if isinstance(message, str) else "message", _text(message))
    elif "role" not in message:
        yield from _part("message", message)
    else:
        role = _text(message["role"])
        name = f"{role} {message['name']}" if message.get("name") else role
        if message.get("reasoning_content"):
            yield Utterance("reasoning", _text(message["reasoning_content"]))
        yield from _content(name, message.get("content"))
        if message.get("refusal"):
            yield Utterance("refusal", _text(message["refusal"]))
        yield from _content("tool call", message.get("tool_calls"))


def _content(who: str, content: Any) -> Iterator[Utterance]:
    for part in content if isinstance(content, list) else [content]:
        if part is not None and part != "":
            yield from _part(who, part)


def _part(who: str, part: Any) -> Iterator[Utterance]:
    """One piece of a message: text, reasoning, a call of a tool, its result, or something to look at."""
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": text}:
            yield Utterance(who, _text(text))
        case {"type": "thinking", "thinking": text}:
            yield Utterance("reasoning", _text(text))
        case {"type": "reasoning", "summary": list() as summary}:
            yield Utterance("reasoning", "\n".join(_text(_bare(piece)) for piece in summary) or "(not shown)")
        case {"type": kind} if kind in _LOOKED_AT:
            yield Utterance(who, f"[{kind}, {len(_json(part)):,} characters of JSON]")
        case {}:
            yield from _tool(who, part)
        case _:
            yield Utterance(who, _text(part))


def _tool(who: str, part: dict[str, Any]) -> Iterator[Utterance]:
    match part:
        case (
            {"function": {"name": name, "arguments": arguments}}
            | {"type": "function_call", "name": name, "arguments": arguments}
            | {"type": "tool_use", "name": name, "input": arguments}
        ):
            yield Utterance("tool call", f"{_text(name)} {_text(arguments)}")
        case {"type": "tool_result", "content": content}:
            yield from _content("tool error" if part.get("is_error") else "tool", content)
        case {"type": "function_call_output", "output": output}:
            yield from _content("tool", output)
        case _:
            yield Utterance(_text(part.get("type", who)), _json(part))


def _bare(piece: Any) -> Any:
    return piece["text"] if isinstance(piece, dict) and "text" in piece else piece


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
