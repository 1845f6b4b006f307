"""The calls of a trial as a conversation in threads: who said what, told once, whichever dialect it was said in.

What is not understood is shown as the JSON it is, so that nothing is left out; lines come out harmless.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from seatrial.messages import AnyItem, Message, Picture, Reasoning, Refusal, ToolCall, ToolResult, Unknown, as_text
from seatrial.model.trace import CallError, ModelCall
from seatrial.report.text import cache_use, counted, format_cost, format_duration, harmless, harmless_lines
from seatrial.trajectories.reading import read_answer, read_messages, read_system, read_tools, tool_name
from seatrial.trajectories.threads import Thread, ThreadCall

_MOST_CHARACTERS = 400  # of one line
_MOST_LINES = 24
_WORTH_TELLING_SEC = 1.0
_LOOKED_AT = ("image", "image_url", "input_image", "document", "input_file", "file", "input_audio")


class ShownPart(NamedTuple):
    """A part of a conversation as it is shown: text, and a role or what kind of thing it is."""

    who: str
    text: str


class CallParts(NamedTuple):
    """A call with what is new in it: what it offers, hears and answers."""

    call: ModelCall
    thread: str | None
    """The name of its thread, if there are several."""

    offered: list[ShownPart]
    heard: list[AnyItem]
    answered: list[AnyItem]

    @property
    def shown(self) -> list[ShownPart]:
        """All of it."""
        return [*self.offered, *shown_parts((*self.heard, *self.answered))]


@dataclass(slots=True)
class _Teller:
    """Knows what of system prompts and tools a thread has been told to have."""

    thread: Thread
    full: bool
    offered: set[ShownPart] = field(default_factory=set)

    def part(self, each: ThreadCall, name: str | None) -> CallParts:
        asked = [part for part in offered(each.request, full=self.full) if part not in self.offered]
        self.offered.update(asked)
        begun = [ShownPart("compacted", "the conversation begins anew")] if each.how == "compacted" else []
        return CallParts(each.call, name, [*asked, *begun], read_messages(each.new), read_answer(each.call.response))


def part_calls(calls: Sequence[ModelCall], threads: Sequence[Thread], *, full: bool) -> Iterator[CallParts]:
    """All calls as they came, each thing told once, where it came up. Those without a conversation are in no thread."""
    placed: dict[int, tuple[_Teller, ThreadCall]] = {}
    for thread in threads:
        teller = _Teller(thread, full)
        placed.update({each.call.index: (teller, each) for each in thread.calls})
    for call in calls:
        if call.index in placed:
            teller, each = placed[call.index]
            yield teller.part(each, teller.thread.name if len(threads) > 1 else None)
        else:
            yield CallParts(call, None, [], read_messages(call.messages), read_answer(call.response))


def describe_threads(threads: Sequence[Thread]) -> list[str]:
    """A line for each thread: how many calls it has, and what started it."""
    return [f"{thread.name}: {_facts(thread)}" for thread in threads]


def _facts(thread: Thread) -> str:
    count = len(thread.calls)
    facts = ["1 call" if count == 1 else f"{count} calls"]
    if thread.starter:
        facts.append(f"started by {thread.starter.tool_call_id or 'a tool'} of call {thread.starter.call}")
    if thread.branches_from is not None:
        facts.append(f"branches off after call {thread.branches_from}")
    return ", ".join(facts)


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


def offered(request: Mapping[str, Any], *, full: bool) -> list[ShownPart]:
    """The system prompt of a request, and its tools: their names, or their definitions in full."""
    system = [ShownPart("system", block) for block in read_system(request)]
    tools = read_tools(request)
    if full:
        return [*system, *(ShownPart("tool offer", as_text(tool)) for tool in tools)]
    return [*system, *([ShownPart("tools", ", ".join(map(tool_name, tools)))] if tools else [])]


def block(part: ShownPart, *, cut: bool) -> list[str]:
    """A part as lines, the first with who said it; long ones cut in the middle if that is wanted."""
    lines = harmless_lines(part.text)
    lines = _cut(lines) if cut else lines
    label = f"{harmless(part.who)[:24]:<11} "
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


def shown_parts(items: Iterable[AnyItem]) -> Iterator[ShownPart]:
    """Items as they are shown; one of several parts is shown as several."""
    for item in items:
        match item:
            case Message():
                who = f"{item.role} {item.name}" if item.name else item.role
                yield from (ShownPart(who, _shown(part)) for part in item.parts)
            case ToolResult():
                yield from (ShownPart("tool error" if item.failed else "tool", _shown(part)) for part in item.parts)
            case ToolCall():
                yield ShownPart("tool call", f"{item.name} {as_text(item.arguments)}")
            case Reasoning():
                yield ShownPart("reasoning", item.text or "(not shown)")
            case Refusal():
                yield ShownPart("refusal", item.text)
            case Unknown():
                yield ShownPart(item.kind, _looked_at(item.kind, item.value) or as_text(item.value))


def _shown(part: str | Picture) -> str:
    if isinstance(part, str):
        return part
    return f"[image, {len(part.url):,} characters]" if part.url.startswith("data:") else f"[image, {part.url}]"


def _looked_at(kind: str, value: Any) -> str | None:
    return f"[{kind}, {len(as_text(value)):,} characters of JSON]" if kind in _LOOKED_AT else None
