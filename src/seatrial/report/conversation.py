"""A model's conversation as words: who said what, whichever dialect it was said in.

What is not understood is shown as the JSON it is, so that nothing is left out; lines come out harmless.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from seatrial.model.trace import CallError, ModelCall
from seatrial.report.text import cache_use, counted, format_cost, format_duration, harmless, harmless_lines
from seatrial.trajectories.asked import read_tools, tool_name
from seatrial.trajectories.items import Declined, Item, Picture, Thought, ToolOutput, ToolUse, Unread, Words, as_text
from seatrial.trajectories.reading import read_answer, read_messages, read_system

_MOST_CHARACTERS = 400  # of one line
_MOST_LINES = 24
_WORTH_TELLING_SEC = 1.0
_LOOKED_AT = ("image", "image_url", "input_image", "document", "input_file", "file", "input_audio")


class Utterance(NamedTuple):
    """Something somebody said: `who` is a role or what kind of thing it is."""

    who: str
    text: str


def headline(call: ModelCall, thread: str | None = None) -> str:
    """The facts of a call on one line, with the name of its thread where there are several."""
    model = call.upstream_model or call.model or "no model"
    asked = f" (asked for {call.model})" if call.model and call.model != model else ""
    named = [f"call {call.index}", *([thread] if thread else [])]
    parts = [*named, model + asked, *_status(call)]
    if call.finish_reason:
        parts.append(call.finish_reason)
    if usage := call.usage:
        cache = cache_use(usage.cached_tokens, usage.cache_write_tokens)
        parts += [f"{usage.input_tokens:,} in{cache}, {usage.output_tokens:,} out", _price(call)]
    first = "" if call.first_token_sec is None else f"first token {format_duration(call.first_token_sec)}, "
    parts.append(f"{first}{format_duration(call.duration_sec)}")
    if call.retry_of is not None:
        parts.append(f"repeats call {call.retry_of}")
    if call.omitted:
        parts.append(f"left out: {', '.join(call.omitted)}")
    if call.error:
        parts.append(f"{call.error.kind} error{_ending(call.error)}: {call.error.message}")
    return harmless(" · ".join(parts))


def _status(call: ModelCall) -> list[str]:
    """How it was answered; of an answer that was imported from elsewhere, nobody knows its status."""
    if call.status is not None:
        return [str(call.status)]
    return [] if call.response is not None and call.error is None else ["no answer"]


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
    return [said for item in read_messages(messages) for said in utterances(item)]


def answer(response: Any) -> list[Utterance]:
    """What an answer says, in any dialect."""
    return [said for item in read_answer(response) for said in utterances(item)]


def offered(request: Mapping[str, Any], *, full: bool) -> list[Utterance]:
    """The system prompt of a request, and its tools: their names, or their definitions in full."""
    said = [Utterance("system", block) for block in read_system(request)]
    tools = read_tools(request)
    if full:
        return [*said, *(Utterance("tool offer", as_text(tool)) for tool in tools)]
    return [*said, *([Utterance("tools", ", ".join(map(tool_name, tools)))] if tools else [])]


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


def utterances(item: Item) -> Iterator[Utterance]:
    """What one item of a conversation says; one of several pieces says several things."""
    match item:
        case Words():
            who = f"{item.role} {item.speaker}" if item.speaker else item.role
            yield from (Utterance(who, _shown(piece)) for piece in item.pieces)
        case ToolOutput():
            yield from (Utterance("tool error" if item.failed else "tool", _shown(piece)) for piece in item.pieces)
        case ToolUse():
            yield Utterance("tool call", f"{item.name} {as_text(item.arguments)}")
        case Thought():
            yield Utterance("reasoning", item.text or "(not shown)")
        case Declined():
            yield Utterance("refusal", item.text)
        case Unread():
            yield Utterance(item.kind, _looked_at(item.kind, item.value) or as_text(item.value))


def _shown(piece: str | Picture) -> str:
    if isinstance(piece, str):
        return piece
    return f"[image, {len(piece.url):,} characters]" if piece.url.startswith("data:") else f"[image, {piece.url}]"


def _looked_at(kind: str, value: Any) -> str | None:
    return f"[{kind}, {len(as_text(value)):,} characters of JSON]" if kind in _LOOKED_AT else None
