"""RuledModel: answers by what a call is, whichever comes first, in any dialect."""

import asyncio
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import ProviderError, UsageError
from seatrial.gateway.api import ModelRequest, for_trial
from seatrial.gateway.upstreams.open import make_upstream
from seatrial.gateway.upstreams.scripted import RuledModel, ScriptedModel, load_script, read_asked, read_rules
from seatrial.model.trace import DialectName
from tests.gateway.upstream_calls import DIALECTS, ask, call

BASH = [{"name": "Bash", "input_schema": {}}]
SHELL = [{"type": "function", "function": {"name": "shell"}}]
EXEC = [{"type": "namespace", "name": "run", "tools": [{"type": "function", "name": "exec_command"}]}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def ran(output: str) -> list[dict[str, Any]]:
    """A turn with a tool, as Anthropic tells it."""
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": output}]}
    return [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]},
        {"role": "user", "content": [result, {"type": "text", "text": "<system-reminder>"}]},
    ]


def model(*rules: dict[str, Any], **more: Any) -> RuledModel:
    return RuledModel(read_rules({"rules": list(rules), **more}, "script.json"))


def said(upstream: Any, *requests: ModelRequest) -> list[str]:
    """The text of each answer, asked one after the other in the dialect of Anthropic."""

    async def run() -> list[str]:
        return [(await ask(upstream, request)).json["content"][0]["text"] for request in requests]

    return asyncio.run(run())


def claude(*messages: dict[str, Any], **more: Any) -> ModelRequest:
    return call("anthropic", messages=list(messages), **more)


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ({}, True),
        ({"tools": True}, True),
        ({"tools": False}, False),
        ({"tools": "Bash"}, True),
        ({"tools": ["shell", "B*"]}, True),
        ({"tools": "bash"}, False),
        ({"model": "m"}, True),
        ({"model": ["gpt-*", "claude-*"]}, False),
        ({"contains": "4711"}, True),
        ({"contains": "first"}, False),
        ({"contains": ["nothing", "4711"]}, True),
        ({"matches": r"4\d+1"}, True),
        ({"matches": r"^\d$"}, False),
        ({"by": "tool"}, True),
        ({"by": "user"}, False),
        ({"thread": "main"}, True),
        ({"thread": "side"}, False),
        ({"turn": 2}, True),
        ({"turn": 1}, False),
        ({"tools": "Bash", "turn": 3}, False),
    ],
)
def test_conditions(when, fits):
    script = model({"when": when, "say": "yes"}, {"say": "no"})
    assert said(script, claude(user("first"), *ran("4711"), tools=BASH)) == ["yes" if fits else "no"]


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_order_in_which_conversations_ask_does_not_matter(order):
    """A title beside the first turn, and two sub-agents at once, which follow the same list."""
    script = model(
        {"when": {"thread": "main"}, "say": ["main 1", "main 2"]},
        {"when": {"thread": "side", "tools": True}, "say": ["side 1", "side 2"]},
    )
    assert said(script, claude(user("work"), tools=BASH)) == ["main 1"]
    asked = [
        (claude(user("work"), *ran("x"), tools=BASH), "main 2"),
        (claude(user("sub-agent a"), tools=BASH), "side 1"),
        (claude(user("sub-agent b"), tools=BASH), "side 1"),
        (claude(user("a title for: work")), "A task"),
    ]
    for place in order:
        request, expected = asked[place]
        assert said(script, request) == [expected]


def test_a_title_that_is_asked_for_first_is_not_the_main_thread():
    script = model({"when": {"thread": "main"}, "say": "main"}, title="My title")
    assert said(script, claude(user("work")), claude(user("work"), tools=BASH)) == ["My title", "main"]


def test_one_answer_is_said_every_time_and_a_list_once():
    script = model({"when": {"by": "user"}, "say": ["a", "b"]}, {"say": "c"})
    assert said(script, *[claude(user("x"))] * 4) == ["a", "b", "c", "c"]


def test_every_trial_starts_anew():
    script = model({"say": ["only"]})
    assert [said(for_trial(script), claude(user("x"))) for _ in range(2)] == [["only"], ["only"]]


def test_a_call_that_no_rule_is_for_says_what_it_was():
    script = model({"when": {"tools": "shell"}, "say": "x"})
    with pytest.raises(ProviderError) as caught:
        said(script, claude(user("first"), *ran("the end"), tools=BASH))
    assert str(caught.value) == (
        "no rule of script.json answers this call: model 'm', the tools Bash, main thread, turn 2; "
        "said last, by the tool: 'the end\\n<system-reminder>'"
    )
    assert not caught.value.retryable


def test_a_rule_that_has_said_all_it_has_is_named():
    script = model({"when": {"turn": 9}, "say": "x"}, {"say": ["a"]}, title=None)
    with pytest.raises(ProviderError, match=r"\(rule 2 would, but has said all its answers\): .*no tools, side"):
        said(script, claude(user("x")), claude(user("x")))


def test_an_error_and_what_follows_when_the_sdk_asks_again():
    script = model({"say": [{"error": {"status": 503, "message": "busy"}}, "after"]})
    with pytest.raises(ProviderError, match="busy"):
        said(script, claude(user("x")))
    assert said(script, claude(user("x"))) == ["after"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_dialect_streamed_or_not(dialect: DialectName):
    answered = asyncio.run(ask(model({"say": "hello there"}), call(dialect, stream=True)))
    assert b"there" in answered.body


CHAT = [
    {"role": "system", "content": "sys"},
    user("do it"),
    {"role": "assistant", "tool_calls": [{"id": "1"}]},
    {"role": "tool", "tool_call_id": "1", "content": "out 1"},
    {"role": "tool", "tool_call_id": "2", "content": [{"type": "text", "text": "out 2"}]},
]
RESPONSES = [
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "sys"}]},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "do it"}]},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "1", "name": "exec_command", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "out 1"},
    {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "out 2"}]},
]
RESULT = {"functionResponse": {"name": "run", "response": {"output": "out 1", "more": ["out 2"]}}}
GOOGLE = [
    {"role": "user", "parts": [{"text": "do it"}]},
    {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {}}}]},
    {"role": "user", "parts": [RESULT]},
]


@pytest.mark.parametrize(
    ("dialect", "messages", "tools", "name"),
    [
        ("openai_chat", CHAT, SHELL, "shell"),
        ("openai_responses", RESPONSES, EXEC, "exec_command"),
        ("openai_chat", GOOGLE, [{"functionDeclarations": [{"name": "run"}]}], "run"),  # as Google writes them
    ],
)
def test_what_is_seen_is_the_same_in_all_dialects(dialect, messages, tools, name):
    first = read_asked(call(dialect, messages=messages[:-2] if len(messages) > 3 else messages[:1]))
    asked = read_asked(call(dialect, messages=messages, tools=tools))
    assert (asked.tools, asked.last, asked.by, asked.turn) == ((name,), "out 1\nout 2", "tool", 2)
    assert first.opening == asked.opening


def test_a_mark_that_moves_leaves_it_the_same_conversation():
    marked = {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}
    plain = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    assert read_asked(claude(marked)).opening == read_asked(claude(plain, *ran("y"))).opening


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "type", "content", "parts", "tools", "function", "name", "functionResponse"]),
            inner,
        )
    ),
    max_leaves=10,
)


@given(st.sampled_from(DIALECTS), json_values, json_values)
def test_nothing_that_a_stranger_sends_is_too_strange(dialect, messages, tools):
    request = call(dialect)
    said: dict[str, Any] = {
        name: messages for name in ("messages", "input", "contents") if name in (request.payload or {})
    }
    asked = read_asked(request._replace(payload={**(request.payload or {}), **said, "tools": tools}))
    assert asked.turn >= 1


RULES_JSON = '{\n  "rules": [{"when": {"tools": "Bash"}, "say": ["yes", {"text": "more"}]}],\n  "title": "T"\n}'
RULES_TOML = 'title = "T"\n[[rules]]\nwhen = {tools = "Bash"}\nsay = ["yes", {text = "more"}]\n'
RULES_YAML = "title: T\nrules:\n- when: {tools: Bash}\n  say:\n  - yes it is\n  - text: more\n"


@pytest.mark.parametrize(("name", "text"), [("s.json", RULES_JSON), ("s.toml", RULES_TOML), ("s.yaml", RULES_YAML)])
def test_rules_from_a_file(tmp_path: Path, name, text):
    (tmp_path / name).write_text(text)
    script = make_upstream(f"scripted:{tmp_path / name}")
    first, second = [claude(user("x"), tools=BASH)] * 2
    assert said(script, first, claude(user("title?")), second)[1:] == ["T", "more"]


@pytest.mark.parametrize("text", ['"a"\n"b"', '["a"]', '{"text": "\\"rules\\""}\n{"text": "b"}', '{"text": "b"}', ""])
def test_answers_in_a_line_stay_what_they_are(tmp_path, text):
    (tmp_path / "s.json").write_text(text)
    assert isinstance(load_script(tmp_path / "s.json"), ScriptedModel)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.json", '{\n"rules": [}', "s.json cannot be read"),
        ("s.toml", "rules = [", "s.toml cannot be read"),
        ("s.yaml", "a: [", "s.yaml cannot be read"),
        ("s.yaml", "", "s.yaml: the script"),
        ("gone.toml", None, "gone.toml cannot be read"),
        ("s.toml", "", "s.toml: rules: Field required"),
        ("s.json", '{"rules": [{"say": "a"}, {"when": {"tool": "x"}, "say": "b"}]}', "rule 2.when.tool: Extra inputs"),
        ("s.json", '{"rules": [{"when": {"matches": "("}, "say": "b"}]}', "rule 1.when.matches: .* regular expression"),
        ("s.json", '{"rules": [{"say": {"txt": "b"}}]}', "rule 1 of .*: a reply has no 'txt'"),
        ("s.json", '{"rules": [], "title": 5}', "the title of .*: a reply is text or a table, not 5"),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_name(tmp_path, name, text, message):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=message):
        load_script(tmp_path / name)
