"""Conversations in words: every dialect's messages and answers, and strangers' forms of them."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.trace import CallError, ModelCall
from seatrial.report.conversation import ShownPart, block, headline, shown_parts
from seatrial.trajectories.reading import read_answer, read_messages

ANTHROPIC = [
    {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image", "source": {"data": "A" * 90}}]},
    {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm"}, {"type": "tool_use", "name": "ls", "input": {"at": "/"}}],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "content": [{"type": "text", "text": "no"}], "is_error": True}],
    },
]
RESPONSES = [
    "hello",
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
    {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
    {"type": "function_call", "name": "ls", "arguments": "{}"},
    {"type": "function_call_output", "output": "a b"},
]


def told(messages):
    return list(shown_parts(read_messages(messages)))


def answer(response):
    return list(shown_parts(read_answer(response)))


def test_anthropics_blocks():
    said = told(ANTHROPIC)
    assert said[0] == ShownPart("user", "look")
    assert said[1].text.startswith("[image, ")
    assert said[2:] == [
        ShownPart("reasoning", "hm"),
        ShownPart("tool call", 'ls {"at": "/"}'),
        ShownPart("tool error", "no"),
    ]


def test_contents_of_google():
    parts = [
        {"text": "Hm.", "thought": True},
        {"text": "I look.", "thoughtSignature": "c2ln"},
        {"functionCall": {"name": "ls", "args": {"path": "."}}},
        {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
    ]
    back = [
        {"functionResponse": {"name": "ls", "response": {"output": "a.txt"}}},
        {"functionResponse": {"name": "ls", "response": {"error": "no such folder"}}},
        {"functionResponse": {"name": "ls", "response": {"code": 1}}},
    ]
    content = {"role": "model", "parts": parts}
    said = [("reasoning", "Hm."), ("model", "I look."), ("tool call", 'ls {"path": "."}')]
    found = told([content, {"role": "user", "parts": back}])
    assert found[:3] == said
    assert found[3].text.startswith("[image, ")
    assert found[4:] == [("tool", "a.txt"), ("tool error", "no such folder"), ("tool", '{"code": 1}')]
    assert answer({"candidates": [{"content": content}, {"finishReason": "SAFETY"}]})[:3] == said


def test_items_of_responses():
    assert told(RESPONSES) == [
        ShownPart("user", "hello"),
        ShownPart("user", "go"),
        ShownPart("reasoning", "hm"),
        ShownPart("tool call", "ls {}"),
        ShownPart("tool", "a b"),
    ]


@pytest.mark.parametrize(
    "response",
    [
        {"choices": [{"message": {"role": "assistant", "content": "hi"}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}]},
        {"output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}]},
    ],
    ids=["chat", "messages", "responses"],
)
def test_answers_of_each_dialect(response):
    assert answer(response) == [ShownPart("assistant", "hi")]


def test_reasoning_and_refusals_of_chat_are_told():
    message = {"role": "assistant", "reasoning_content": "hm", "content": "", "refusal": "no"}
    assert answer({"choices": [{"message": message}]}) == [ShownPart("reasoning", "hm"), ShownPart("refusal", "no")]


def test_what_is_not_understood_is_shown_as_it_is():
    assert told([{"role": "user", "content": [{"type": "hologram", "x": 1}]}]) == [
        ShownPart("hologram", '{"type": "hologram", "x": 1}')
    ]
    assert answer({"surprise": 1}) == [ShownPart("answer", '{"surprise": 1}')]


KEYS = (
    "role",
    "content",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "output",
    "choices",
    "message",
)
MORE_KEYS = ("summary", "thinking", "input", "refusal", "reasoning_content")
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS + MORE_KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(values, max_size=3), values)
def test_whatever_a_stranger_sends_becomes_harmless_lines(messages, response):
    for said in [*told(messages), *answer(response)]:
        for cut in (True, False):
            assert all(line.isprintable() for line in block(said, cut=cut))


@pytest.mark.parametrize(
    ("silent_sec", "ending"),
    [
        (75.0, "disconnected error, ended by us after 1 min 15 s of silence: late"),
        (0.2, "disconnected error, ended by us: late"),
    ],
)
def test_a_call_that_came_to_nothing_says_who_ended_it(silent_sec, ending):
    error = CallError(kind="disconnected", message="late", ended_by="us", silent_sec=silent_sec)
    call = ModelCall(index=0, path="/v1/responses", started_at=dt.datetime.now(dt.UTC), duration_sec=80.0, error=error)
    assert headline(call).endswith(ending)
