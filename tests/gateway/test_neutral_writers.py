"""Each dialect has one writer: whatever an answer says, its stream amounts to what it is as a whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.base import SseEvent
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.neutral.types import Answer, CallDelta, CallStarted, Delta, Ended, Started, TextDelta
from seatrial.messages import Item, Message, Reasoning, Refusal, ToolCall
from seatrial.model.trace import DialectName, TokenUsage

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
CALLS = st.builds(ToolCall, st.just("c"), st.just("run"), st.sampled_from(["{}", '{"command":"ls -la /a/long/path"}']))


def said(text: str) -> Message:
    return Message("assistant", (text,))


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """What every dialect can say: thoughts, text and a refusal come before calls."""
    items: list[Item] = []
    for make in (Reasoning, said, Refusal):
        items += [make(draw(TEXTS))] if draw(st.booleans()) else []
    if not any(isinstance(item, Refusal) for item in items):
        items += [
            ToolCall(f"c{slot}", call.name, call.arguments)
            for slot, call in enumerate(draw(st.lists(CALLS, max_size=3)))
        ]
    counts = TokenUsage(input_tokens=9, cached_tokens=4, output_tokens=5, reasoning_tokens=draw(st.integers(0, 5)))
    return Answer("id", "m", tuple(items), draw(st.sampled_from(["stop", "length", "tool_calls"])), counts, 7)


def deltas(answer: Answer) -> Iterator[Delta]:
    """The same answer as it grows, in two pieces each."""
    yield Started(answer.id, answer.model, answer.created)
    slot = 0
    for item in answer.items:
        if isinstance(item, ToolCall):
            yield CallStarted(slot, item.id, item.name)
            yield from (CallDelta(slot, piece) for piece in halves(item.arguments))
            slot += 1
        elif isinstance(item, Message):
            yield from (TextDelta("text", piece) for piece in halves(item.text))
        elif isinstance(item, Reasoning):
            yield from (TextDelta("reasoning", piece) for piece in halves(item.text))
        elif isinstance(item, Refusal):
            yield from (TextDelta("refusal", piece) for piece in halves(item.text))
    yield Ended(answer.stop, answer.usage)


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def assembled(dialect: DialectName, events: Iterator[SseEvent]) -> Any:
    assembler = DIALECTS[dialect].assembler()
    for event in events:
        assembler.feed(event)
    assert assembler.finished
    return assembler.response()


def without_empty(value: Any) -> Any:
    """Absent, null and empty are the same to those who read streams."""
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := without_empty(item)) not in (None, [], "", {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dialect", DIALECTS)
@given(answer=answers())
def test_a_stream_that_grows_amounts_to_the_whole_answer(dialect: DialectName, answer: Answer):
    writer = DIALECTS[dialect].writer()
    grown = assembled(dialect, (event for delta in deltas(answer) for event in writer.write(delta)))
    assert without_empty(grown) == without_empty(DIALECTS[dialect].write_answer(answer))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(answer=answers())
def test_a_whole_answer_that_is_cut_amounts_to_itself(dialect: DialectName, answer: Answer):
    whole = DIALECTS[dialect].write_answer(answer)
    assert without_empty(assembled(dialect, DIALECTS[dialect].split_answer(whole))) == without_empty(whole)
