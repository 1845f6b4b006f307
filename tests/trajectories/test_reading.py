"""Messages and answers of every dialect as items, and strangers' forms of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.messages import Message, Picture, Reasoning, Refusal, ToolCall, ToolResult, Unknown, as_text
from seatrial.trajectories.reading import (
    read_answer,
    read_effort,
    read_message,
    read_messages,
    read_system,
    read_tools,
    tool_name,
)
from tests.trajectories.samples import DIALECTS, LOOK, PNG

every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: type(each).__name__)


@every_dialect
def test_words_calls_results_and_images_of_each_dialect(dialect):
    assert read_message(dialect.user("hi")) == [Message("user", ("hi",))]
    said = [item for item in read_messages(dialect.said("ok", LOOK)) if not isinstance(item, Message)]
    assert [(item.name, as_text(item.arguments)) for item in said if isinstance(item, ToolCall)] == [
        ("shell", '{"command": "ls"}')
    ]
    (result,) = read_message(dialect.result(LOOK, "a.txt"))
    assert isinstance(result, ToolResult)
    assert "a.txt" in str(result.parts[0])
    (shown,) = read_message(dialect.image())
    assert isinstance(shown, Message)
    assert [type(piece) for piece in shown.parts] == [str, Picture]


@every_dialect
def test_answers_systems_and_tools_of_each_dialect(dialect):
    items = read_answer(dialect.answer("ok", LOOK))
    assert [type(item) for item in items if not isinstance(item, Reasoning)] == [Message, ToolCall]
    request = dialect.request("be brief", ["shell", "task"])
    assert read_system(request) or dialect.begin("be brief")
    assert [tool_name(tool) for tool in read_tools(request)] == ["shell", "task"]
    assert all("function" in tool for tool in read_tools(request))


@pytest.mark.parametrize(
    ("message", "items"),
    [
        ({"role": "assistant", "content": None, "refusal": "no"}, [Refusal("no")]),
        ({"type": "reasoning", "summary": [], "encrypted_content": "xx"}, [Reasoning("")]),
        ({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "xx"}]}, [Reasoning("")]),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "***"},
            [ToolCall("c", "patch", "***")],
        ),
        ({"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}, [ToolResult("c", ("ok",))]),
        ({"role": "function", "name": "f", "content": "1"}, [ToolResult("", ("1",), "f")]),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x", "is_error": True}],
            },
            [ToolResult("t", ("x",), failed=True)],
        ),
        ({"role": "user", "content": [{"type": "hologram"}]}, [Unknown("user", "hologram", {"type": "hologram"})]),
        ({"parts": [{"text": "a"}, {"text": "b"}]}, [Message("user", ("a", "b"))]),
        (7, [Unknown("user", "message", 7)]),
    ],
)
def test_less_common_forms(message, items):
    assert read_message(message) == items


def test_a_picture_has_its_data():
    (words,) = read_message(DIALECTS[1].image())
    assert isinstance(words, Message)
    assert words.parts[1] == Picture(f"data:image/png;base64,{PNG}", media_type="image/png")


@pytest.mark.parametrize(
    ("request_", "effort"),
    [
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning": {"effort": "low"}}, "low"),
        ({"output_config": {"effort": "max"}}, "max"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, 1024),
        ({"generationConfig": {"thinkingConfig": {"thinkingBudget": 8}}}, 8),
        ({"thinking": {"budget_tokens": True}}, None),
        ({}, None),
    ],
)
def test_effort(request_, effort):
    assert read_effort(request_) == effort


KEYS = (
    *("role", "content", "type", "text", "tool_calls", "function", "name", "arguments", "output", "choices", "message"),
    *("summary", "thinking", "input", "refusal", "parts", "functionCall", "functionResponse", "thought", "candidates"),
    *("tool_use_id", "image_url", "url", "source", "tools", "system", "functionDeclarations", "inlineData", "id"),
)
KINDS = ("text", "tool_use", "tool_result", "function_call", "reasoning", "image", "thinking", "function", "refusal")
strange = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from((*KINDS, "user", "assistant")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=14,
)


@given(strange, st.lists(st.text(min_size=1, max_size=5) | strange, max_size=4))
def test_whatever_a_stranger_sends_is_read_and_text_is_kept(value, content):
    read_answer(value)
    read_system(value)
    read_tools(value)
    read_effort(value)
    items = read_message({"role": "user", "content": content})
    said = [piece for item in items if isinstance(item, Message) for piece in item.parts]
    assert [text for text in content if isinstance(text, str) and text and text not in said] == []
    tables = [part for part in content if isinstance(part, dict)]
    assert len(items) >= len([part for part in tables if not _is_words(part)])


def _is_words(part):
    return all(isinstance(item, Message) for item in read_message({"role": "user", "content": [part]}))
