"""Each dialect has one writer: whatever an answer says, its stream amounts to what it is as a whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.neutral.answers import STREAM_WRITERS, split_answer, write_answer
from seatrial.gateway.neutral.types import (
    Answer,
    Called,
    CallGrown,
    CallStarted,
    Delta,
    Ended,
    Grown,
    Item,
    Reasoned,
    Refused,
    Said,
    Started,
    Text,
)
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect, TokenUsage

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)
CALLS = st.builds(Called, st.just("c"), st.just("run"), st.sampled_from(["{}", '{"command":"ls -la /a/long/path"}']))


def said(text: str) -> Said:
    return Said("assistant", (Text(text),))


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    """What every dialect can say: thoughts, text and a refusal come before calls."""
    items: list[Item] = []
    for make in (Reasoned, said, Refused):
        items += [make(draw(TEXTS))] if draw(st.booleans()) else []
    if not any(isinstance(item, Refused) for item in items):
        items += [
            Called(f"c{slot}", call.name, call.arguments) for slot, call in enumerate(draw(st.lists(CALLS, max_size=3)))
        ]
    counts = TokenUsage(input_tokens=9, cached_tokens=4, output_tokens=5, reasoning_tokens=draw(st.integers(0, 5)))
    return Answer("id", "m", tuple(items), draw(st.sampled_from(["stop", "length", "tool_calls"])), counts, 7)


def deltas(answer: Answer) -> Iterator[Delta]:
    """The same answer as it grows, in two pieces each."""
    yield Started(answer.id, answer.model, answer.created)
    slot = 0
    for item in answer.items:
        if isinstance(item, Called):
            yield CallStarted(slot, item.id, item.name)
            yield from (CallGrown(slot, piece) for piece in halves(item.arguments))
            slot += 1
        elif isinstance(item, Said):
            yield from (Grown("text", piece) for piece in halves(item.parts[0].text))  # type: ignore[union-attr]
        elif isinstance(item, Reasoned):
            yield from (Grown("reasoning", piece) for piece in halves(item.text))
        elif isinstance(item, Refused):
            yield from (Grown("refusal", piece) for piece in halves(item.text))
    yield Ended(answer.stop, answer.usage)


def halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [piece for piece in (text[:middle], text[middle:]) if piece]


def assembled(dialect: Dialect, events: Iterator[SseEvent]) -> Any:
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
def test_a_stream_that_grows_amounts_to_the_whole_answer(dialect: Dialect, answer: Answer):
    writer = STREAM_WRITERS[dialect]()
    grown = assembled(dialect, (event for delta in deltas(answer) for event in writer.write(delta)))
    assert without_empty(grown) == without_empty(write_answer(answer, dialect))


@pytest.mark.parametrize("dialect", DIALECTS)
@given(answer=answers())
def test_a_whole_answer_that_is_cut_amounts_to_itself(dialect: Dialect, answer: Answer):
    whole = write_answer(answer, dialect)
    assert without_empty(assembled(dialect, split_answer(whole, dialect, include_usage=True))) == without_empty(whole)
