"""A lenient translation says all that the other dialect can hear, names what it leaves out, and makes nothing up."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.translate import NAMES, Untranslatable, translate
from seatrial.model.trace import Dialect
from tests.gateway.agent_requests import CLAUDE_CODE, CODEX, CODEX_ADDING_TOOLS, KIMI, PATCH, SCHEMA
from tests.gateway.conversations import requests
from tests.gateway.strict_upstream import complaint

C: Dialect = "openai_chat"
R: Dialect = "openai_responses"
A: Dialect = "anthropic"
HI = [{"role": "user", "content": "hi"}]
CLAUDE_LOSES = ("context_management", "cache_control", "tools[2] (web_search_20250305)", "metadata")
CODEX_LOSES = ("prompt_cache_key", "client_metadata")
CODEX_TOOLS = ("tools[2] (namespace multi_agent_v1)", "tools[3] (web_search)")


def lenient(payload: dict[str, Any], here: Dialect, there: Dialect) -> tuple[dict[str, Any], tuple[str, ...]]:
    translated = translate(payload, here, there, "lenient")
    assert complaint(there, translated.payload) is None
    return translated.payload, translated.omitted


@pytest.mark.parametrize(
    ("payload", "here", "there", "omitted"),
    [
        (CLAUDE_CODE, A, C, (*CLAUDE_LOSES, "messages[1].content[0].signature")),
        (CLAUDE_CODE, A, R, CLAUDE_LOSES),
        (CODEX, R, C, (*CODEX_LOSES, *CODEX_TOOLS, "reasoning.summary")),
        (CODEX, R, A, (*CODEX_LOSES, *CODEX_TOOLS, "text.verbosity", "input[2] (reasoning)")),
        (CODEX_ADDING_TOOLS, R, C, (*CODEX_LOSES, "input[0].tools[1] (namespace clock)", "reasoning.summary")),
        (KIMI, C, A, ("prompt_cache_key", "messages[2].reasoning_content")),
        (KIMI, C, R, ("prompt_cache_key",)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_real_agents_are_understood_by_the_strictest_provider(payload, here, there, omitted):
    found = lenient(payload, here, there)[1]
    assert set(found) == set(omitted)
    assert len(found) == len(omitted)


def test_claude_code_in_the_words_of_chat():
    said, _ = lenient(CLAUDE_CODE, A, C)
    assert said["reasoning_effort"] == "high"
    assert [tool["function"]["name"] for tool in said["tools"]] == ["Bash"]
    call = {"id": "t1", "type": "function", "function": {"name": "Bash", "arguments": '{"command":"ls"}'}}
    assert said["messages"][2:] == [
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "x.txt"},
    ]


def test_claude_code_in_the_words_of_responses():
    said, _ = lenient(CLAUDE_CODE, A, R)
    assert said["reasoning"] == {"effort": "high", "summary": "auto"}
    assert said["include"] == ["reasoning.encrypted_content"]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "c2ln"}
    assert thought in said["input"]


@pytest.mark.parametrize("payload", [CODEX, CODEX_ADDING_TOOLS])
def test_codex_in_the_words_of_anthropic(payload):
    said, _ = lenient(payload, R, A)
    assert said["output_config"] == {"effort": "low"}
    assert said["thinking"] == {"type": "adaptive", "display": "summarized"}
    patching = next(tool for tool in said["tools"] if tool["name"] == "apply_patch")
    assert patching["input_schema"]["required"] == ["input"]
    assert "start: hunk+" in patching["input_schema"]["properties"]["input"]["description"]
    assert {tool["name"] for tool in said["tools"]} == {"run", "apply_patch"}


def test_an_earlier_patch_of_codex_is_an_earlier_call():
    said, _ = lenient(CODEX, R, A)
    used = {"type": "tool_use", "id": "c2", "name": "apply_patch", "input": {"input": PATCH}}
    assert used in said["messages"][-2]["content"]
    assert said["messages"][-1]["content"][-1] == {"type": "tool_result", "tool_use_id": "c2", "content": "Success."}


@pytest.mark.parametrize(
    ("asked", "here", "there", "written"),
    [
        ({"reasoning_effort": "minimal"}, C, A, {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}}),
        ({"reasoning_effort": "xhigh"}, C, A, {"output_config": {"effort": "xhigh"}, "thinking": {"type": "adaptive"}}),
        ({"reasoning_effort": "none"}, C, A, {"thinking": {"type": "disabled"}}),
        ({"reasoning_effort": "high", "temperature": 0.2}, C, A, {"output_config": {"effort": "high"}}),
        ({"output_config": {"effort": "max"}}, A, C, {"reasoning_effort": "xhigh"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, A, C, {"reasoning_effort": "low"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 8192}}, A, C, {"reasoning_effort": "medium"}),
        ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, A, C, {"reasoning_effort": "high"}),
        ({"thinking": {"type": "disabled"}}, A, C, {}),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, A, R, {"include": ["reasoning.encrypted_content"]}),
        ({"metadata": {"user_id": "u"}}, A, C, {"user": "u"}),
        ({"user": "u"}, C, A, {"metadata": {"user_id": "u"}}),
        ({"user": "u"}, C, R, {"user": "u"}),
    ],
)
def test_settings_that_have_a_counterpart(asked, here, there, written):
    asked = {"model": "m", "messages": HI, **asked}
    said, omitted = lenient(asked, here, there)
    names = ("output_config", "thinking", "reasoning_effort", "reasoning", "include", "user", "metadata")
    assert {name: said[name] for name in names if name in said} == written
    assert omitted == ()


def test_shapes_of_answers_go_both_ways():
    shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    asked = {"model": "m", "messages": HI, "response_format": shape}
    said, _ = lenient(asked, C, A)
    assert said["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert lenient(said, A, C)[0]["response_format"] == shape
    older = {"model": "m", "max_tokens": 1, "messages": HI, "output_format": {"type": "json_schema", "schema": SCHEMA}}
    assert lenient(older, A, C)[0]["response_format"] == shape


@pytest.mark.parametrize(
    ("choice", "written", "noted"),
    [
        ({"type": "web_search"}, {"type": "auto"}, True),
        ({"type": "function", "name": "gone"}, {"type": "auto"}, True),
        ({"type": "custom", "name": "apply_patch"}, {"type": "tool", "name": "apply_patch"}, False),
        ("required", {"type": "any"}, False),
    ],
)
def test_a_choice_of_a_tool_that_is_left_out_is_free(choice, written, noted):
    asked = {**CODEX, "tool_choice": choice, "parallel_tool_calls": None}
    said, omitted = lenient(asked, R, A)
    assert said["tool_choice"] == written
    assert ("tool_choice" in omitted) == noted


def test_without_a_tool_there_is_nothing_to_choose():
    asked = {"model": "m", "input": "hi", "tools": [{"type": "web_search"}], "tool_choice": "required"}
    said, omitted = lenient(asked, R, C)
    assert said.keys() == {"model", "messages"}
    assert omitted == ("tools[0] (web_search)",)


def test_deferred_tools_are_offered_once_they_are_found():
    found = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "Late"}]}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Search", "input": {}}]}
    tools = [{"name": name, "input_schema": SCHEMA, "defer_loading": name != "Search"} for name in ("Search", "Late")]
    asked = {"model": "m", "max_tokens": 9, "messages": [*HI, use], "tools": tools}
    assert [tool["function"]["name"] for tool in translate(asked, A, C, "lenient").payload["tools"]] == ["Search"]
    said, omitted = lenient({**asked, "messages": [*HI, use, {"role": "user", "content": [found]}]}, A, C)
    assert [tool["function"]["name"] for tool in said["tools"]] == ["Search", "Late"]
    assert said["messages"][-1]["content"] == "The tool Late can be used now."
    assert omitted == ()


def test_pictures_that_tools_gave_back_are_shown_to_chat_after_all_outputs():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
    uses = [{"type": "tool_use", "id": name, "name": "Read", "input": {}} for name in "ab"]
    outputs = [
        {"type": "tool_result", "tool_use_id": "a", "content": [image]},
        {"type": "tool_result", "tool_use_id": "b", "content": "text"},
    ]
    asked = [*HI, {"role": "assistant", "content": uses}, {"role": "user", "content": outputs}]
    said, omitted = lenient({"model": "m", "max_tokens": 9, "messages": asked}, A, C)
    assert [message["role"] for message in said["messages"]] == ["user", "assistant", "tool", "tool", "user"]
    assert said["messages"][-1]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,aa"},
    }
    assert omitted == ()


def test_what_the_model_says_after_its_calls_is_said_before_them():
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    spoken = {"role": "assistant", "content": [{"type": "text", "text": "a"}, use, {"type": "text", "text": "b"}]}
    output = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    said, _ = lenient({"model": "m", "messages": [*HI, spoken, output]}, A, C)
    assert said["messages"][1]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_arguments_that_are_no_json_are_told_as_they_are():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[not json"}}
    asked = [*HI, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "no"}]
    said, _ = lenient({"model": "m", "messages": asked}, C, A)
    assert said["messages"][1]["content"][0]["input"] == {"malformed_arguments": "[not json"}


@pytest.mark.parametrize(
    ("payload", "here", "field"),
    [
        ({"model": "m", "input": [{"type": "item_reference", "id": "x"}]}, R, "input[0].type"),
        ({"model": "m", "input": "x", "previous_response_id": "r"}, R, "previous_response_id"),
        ({"model": "m", "messages": [{"role": "user", "content": [{"type": "document"}]}]}, A, "messages[0]"),
    ],
)
def test_content_that_cannot_be_said_is_refused(payload, here, field):
    with pytest.raises(Untranslatable) as refusal:
        translate(payload, here, C, "lenient")
    assert refusal.value.field.startswith(field)


def test_every_dialect_has_its_own_names():
    assert NAMES.keys() == DIALECTS.keys()


EXTRAS: dict[Dialect, dict[str, Any]] = {
    C: {
        "reasoning_effort": st.sampled_from(["none", "minimal", "low", "medium", "high", "xhigh", "new"]),
        "response_format": st.sampled_from([{"type": "text"}, {"type": "json_object"}]),
        "user": st.text(max_size=3),
        "seed": st.integers(0, 9),
        "stop": st.sampled_from(["x", ["x", "y"]]),
        "n": st.integers(1, 2),
        "logprobs": st.booleans(),
        "temperature": st.sampled_from([0, 0.5, 1, 2]),
        "verbosity": st.sampled_from(["low", "medium"]),
        "service_tier": st.sampled_from(["auto", "flex"]),
        "prompt_cache_key": st.text(max_size=3),
        "web_search_options": st.just({}),
    },
    R: {
        "reasoning": st.fixed_dictionaries(
            {}, optional={"effort": st.sampled_from(["low", "none"]), "summary": st.just("auto")}
        ),
        "truncation": st.sampled_from(["auto", "disabled"]),
        "include": st.sampled_from([[], ["reasoning.encrypted_content"], ["message.output_text.logprobs"]]),
        "max_tool_calls": st.integers(1, 9),
        "client_metadata": st.just({"a": "b"}),
        "service_tier": st.sampled_from(["auto", "priority"]),
        "text": st.sampled_from([{}, {"verbosity": "high"}]),
    },
    A: {
        "thinking": st.sampled_from(
            [{"type": "disabled"}, {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 2048}]
        ),
        "output_config": st.sampled_from([{}, {"effort": "max"}, {"effort": "low", "task_budget": {}}]),
        "context_management": st.just({"edits": []}),
        "mcp_servers": st.just([]),
        "top_k": st.integers(1, 9),
        "service_tier": st.just("auto"),
        "stop_sequences": st.just(["x"]),
    },
}


def _texts(value: Any) -> set[str]:
    """The words of a conversation, wherever a dialect has them."""
    if isinstance(value, list):
        return set().union(*map(_texts, value)) if value else set()
    if not isinstance(value, dict):
        return {value} if isinstance(value, str) else set()
    told = {
        name: value[name] for name in ("content", "text", "output", "summary", "reasoning_content") if name in value
    }
    return set().union(*map(_texts, told.values())) if told else set()


def _said(payload: dict[str, Any]) -> set[str]:
    names = ("messages", "input", "system", "instructions")
    return {text for name in names for text in _texts(payload.get(name)) if text}


@settings(max_examples=40)
@given(st.data(), requests(), st.sampled_from([C, R, A]))
def test_documented_fields_never_stop_an_agent_and_nothing_is_made_up(data, asked, here):
    mine = asked if here == C else translate(asked, C, here, "lenient").payload
    mine |= data.draw(st.fixed_dictionaries({}, optional=EXTRAS[here]))
    for there in {C, R, A} - {here}:
        translated = translate(mine, here, there, "lenient")
        assert _said(translated.payload) == _said(mine)
        named = {name.partition(".")[0].partition("[")[0] for name in translated.omitted}
        assert named <= mine.keys()
