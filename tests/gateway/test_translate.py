"""Translation loses nothing: there and back again is where one was, and what would be lost is refused by name."""

import collections
from itertools import permutations
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from seatrial.gateway.base import SseEvent
from seatrial.gateway.dialects import DIALECTS, usage_of
from seatrial.gateway.neutral.anthropic_requests import DEFAULT_MAX_TOKENS
from seatrial.gateway.neutral.types import Untranslatable
from seatrial.gateway.translate import StreamTranslator, translate, translate_request, translate_response
from seatrial.model.trace import DialectName
from tests.gateway import dialect_streams as streams
from tests.gateway.agent_requests import CLAUDE_CODE, CODEX, CODEX_ADDING_TOOLS, KIMI, PATCH, SCHEMA
from tests.gateway.conversations import answers, requests
from tests.gateway.google_answers import GoogleAnswer
from tests.gateway.sdk_streams import sdk_answer, sdk_stream
from tests.gateway.strict_upstream import complaint
from tests.gateway.test_dialects_streams import JSON, JUDGES, assemble, damaged

PAIRS = list(permutations(DIALECTS, 2))
HI = [{"role": "user", "content": "hi"}]
CHAT = {"model": "m", "messages": HI}
PNG = "data:image/png;base64,iVBORw0K"


@pytest.mark.parametrize(("here", "there"), PAIRS)
@settings(max_examples=25)
@given(requests())
def test_requests_come_back_as_they_were(here, there, asked):
    if "google" in (here, there):
        asked = _as_google_can_say_it(asked)
    mine = translate_request(asked, "openai_chat", here)
    theirs = translate_request(mine, here, there)
    assert DIALECTS[there].check(theirs) is None
    assert translate_request(theirs, there, here) == mine


def _as_google_can_say_it(asked):
    """Google knows no strict tools, and none that are called one at a time."""
    rest = {name: value for name, value in asked.items() if name != "parallel_tool_calls"}
    if "tools" in rest:
        functions = [dict(each["function"]) for each in rest["tools"]]
        for function in functions:
            function.pop("strict", None)
        rest["tools"] = [{"type": "function", "function": function} for function in functions]
    return rest


@pytest.mark.parametrize(("here", "there"), PAIRS)
@settings(max_examples=25)
@given(answers())
def test_answers_come_back_as_they_were(here, there, answer):
    mine = translate_response(answer, "openai_chat", here)
    JUDGES[here].model_validate(mine)
    theirs = translate_response(mine, here, there)
    JUDGES[there].model_validate(theirs)
    back = translate_response(theirs, there, here)
    assert usage_of(here, back) == usage_of(here, mine)
    assert back == mine


def test_a_request_with_everything_in_anthropics_words():
    call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"."}'}}
    parameters = {"type": "object", "properties": {}}
    tool = {"type": "function", "function": {"name": "ls", "description": "list", "parameters": parameters}}
    request = {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "developer", "content": "Be brief."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": PNG}}],
            },
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "x.txt"},
            {"role": "user", "content": "go on"},
        ],
        "tools": [tool],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "stop": "END",
        "user": "me",
    }
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K"}}
    assert translate_request(request, "openai_chat", "anthropic") == {
        "model": "m",
        "system": [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "call_1", "name": "ls", "input": {"path": "."}}],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "x.txt"},
                    {"type": "text", "text": "go on"},
                ],
            },
        ],
        "max_tokens": DEFAULT_MAX_TOKENS,
        "tools": [{"name": "ls", "description": "list", "input_schema": parameters}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "me"},
    }


def test_a_request_of_an_anthropic_agent_in_the_words_of_chat():
    cached = {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}
    failed = {"type": "tool_result", "tool_use_id": "t1", "content": "no such file", "is_error": True}
    request = {
        "model": "m",
        "max_tokens": 9,
        "system": [cached],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "cat", "input": {}}]},
            {"role": "user", "content": [failed]},
        ],
        "metadata": {"user_id": "u"},
        "thinking": {"type": "disabled"},
    }
    translated = translate_request(request, "anthropic", "openai_chat")
    assert translated["messages"][0] == {"role": "system", "content": "Be kind."}
    assert translated["messages"][-1] == {"role": "tool", "tool_call_id": "t1", "content": "Error: no such file"}
    assert set(translated) == {"model", "messages", "max_completion_tokens", "user"}


def test_chat_and_responses_share_formats_and_effort():
    schema = {"name": "s", "schema": {"type": "object"}, "strict": True}
    shape = {"type": "json_schema", "json_schema": schema}
    request = {**CHAT, "response_format": shape, "reasoning_effort": "low", "verbosity": "high"}
    translated = translate_request(request, "openai_chat", "openai_responses")
    assert translated["text"] == {"format": {"type": "json_schema", **schema}, "verbosity": "high"}
    assert translated["reasoning"] == {"effort": "low"}
    assert translated["store"] is False
    assert translate_request(translated, "openai_responses", "openai_chat") == request


def test_tools_of_chat_are_not_strict_by_default():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    translated = translate_request({**CHAT, "tools": [tool]}, "openai_chat", "openai_responses")
    assert translated["tools"][0]["strict"] is False


@pytest.mark.parametrize("there", ["anthropic", "openai_responses"])
@pytest.mark.parametrize("url", [PNG, "https://example.org/a.png"])
def test_images_come_back(there, url):
    part = {"type": "image_url", "image_url": {"url": url}}
    request = {**CHAT, "messages": [{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]}
    back = translate_request(translate_request(request, "openai_chat", there), there, "openai_chat")
    assert back["messages"][0]["content"][1]["image_url"]["url"] == url


def test_empty_text_is_left_out_of_blocks():
    request = {**CHAT, "messages": [{"role": "user", "content": ""}, *HI]}
    messages = translate_request(request, "openai_chat", "anthropic")["messages"]
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


def test_system_messages_in_the_middle_keep_their_place():
    middle = {"role": "system", "content": "Now be brief."}
    request = {**CHAT, "messages": [*HI, middle, *HI]}
    translated = translate_request(request, "openai_chat", "anthropic")
    assert translated["messages"] == [*HI, middle, *HI]
    assert "system" not in translated


def test_text_input_is_one_message():
    translated = translate_request({"model": "m", "input": "hi", "instructions": "s"}, "openai_responses", "anthropic")
    assert (translated["system"], translated["messages"]) == ("s", HI)


def _said(**part):
    return {**CHAT, "messages": [{"role": "user", "content": [part]}]}


ARGUMENTS = "[not json"
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": ARGUMENTS}}
BLOCKS = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}, {"type": "text", "text": "x"}],
}
SIGNED = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}]}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aa"}}
SHOWN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [IMAGE]}]}


C, R, A = "openai_chat", "openai_responses", "anthropic"
NAMED = {"role": "user", "name": "bob", "content": "x"}
REFERENCE = {"type": "item_reference", "id": "x"}
BASH = {"type": "bash_20250124", "name": "bash"}


@pytest.mark.parametrize(
    ("payload", "here", "there", "field"),
    [
        ({**CHAT, "n": 2}, C, A, "n"),
        ({**CHAT, "logprobs": True}, C, R, "logprobs"),
        ({**CHAT, "seed": 1}, C, A, "seed"),
        ({**CHAT, "stop": ["x"]}, C, R, "stop"),
        ({**CHAT, "temperature": 1.5}, C, A, "temperature"),
        ({**CHAT, "reasoning_effort": "a lot"}, C, A, "reasoning_effort"),
        ({**CHAT, "response_format": {"type": "json_object"}}, C, A, "response_format"),
        ({"model": "m", "messages": HI, "stop_sequences": ["x"]}, A, R, "stop_sequences"),
        ({"model": "m", "input": "x", "text": {"verbosity": "low"}}, R, A, "text.verbosity"),
        ({**CHAT, "frequency_penalty": 0.5}, C, A, "frequency_penalty"),
        ({**CHAT, "brand_new": 1}, C, A, "brand_new"),
        ({**CHAT, "tools": [{"type": "custom", "custom": {"name": "f"}}]}, C, A, "tools[0] (custom)"),
        (_said(type="input_audio", input_audio={}), C, A, "messages[0].content[0].type"),
        (_said(type="file", file={}), C, R, "messages[0].content[0].type"),
        ({**CHAT, "messages": [NAMED]}, C, A, "messages[0].name"),
        ({**CHAT, "messages": [{"role": "assistant", "tool_calls": [CALL]}]}, C, A, "arguments of f"),
        ({"model": "m", "input": "x", "previous_response_id": "r"}, R, A, "previous_response_id"),
        ({"model": "m", "input": "x", "tools": [{"type": "web_search"}]}, R, C, "tools[0] (web_search)"),
        ({"model": "m", "input": [REFERENCE]}, R, C, "input[0].type"),
        ({"model": "m", "messages": [SIGNED]}, A, C, "messages[0].content[0].signature"),
        ({"model": "m", "messages": [BLOCKS]}, A, C, "content"),
        ({"model": "m", "messages": [SHOWN]}, A, C, "messages[0].content[0].content[0]"),
        ({"model": "m", "messages": HI, "top_k": 5}, A, R, "top_k"),
        ({"model": "m", "messages": HI, "thinking": {"type": "enabled"}}, A, C, "thinking"),
        ({"model": "m", "messages": HI, "tools": [BASH]}, A, C, "tools[0] (bash_20250124)"),
    ],
)
def test_what_would_be_lost_is_refused_by_name(payload, here, there, field):
    with pytest.raises(Untranslatable) as refusal:
        translate_request(payload, here, there)
    assert refusal.value.field == field
    assert field in str(refusal.value)


def _chat_answer(finish, **message):
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": None, **message}}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.parametrize("reason", [["stop"], {"type": "stop"}, 1, "", None])
def test_a_reason_that_is_none_is_a_plain_end(reason):
    answer = translate_response(_chat_answer(reason, content="hi"), "openai_chat", "anthropic")
    assert answer["stop_reason"] == "end_turn"


def test_refusals():
    refused = _chat_answer("stop", refusal="I will not.")
    message = translate_response(refused, "openai_chat", "anthropic")
    JUDGES["anthropic"].model_validate(message)
    assert (message["stop_reason"], message["content"]) == ("refusal", [{"type": "text", "text": "I will not."}])
    response = translate_response(refused, "openai_chat", "openai_responses")
    assert (
        translate_response(response, "openai_responses", "openai_chat")["choices"][0]["message"]["refusal"]
        == "I will not."
    )


@pytest.mark.parametrize("arguments", ['{"x":1e999}', '{"x":NaN}', '{"x":123456789012345678901234567890}', "[1]"])
def test_arguments_that_would_change_are_refused(arguments):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(Untranslatable, match="arguments of f"):
        translate_request(
            {**CHAT, "messages": [{"role": "assistant", "tool_calls": [call]}]}, "openai_chat", "anthropic"
        )


def test_what_a_coding_agent_asks_of_responses():
    extras = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}, "store": False}
    asked = {"model": "m", "input": "hi", **extras}
    assert translate_request(asked, "openai_responses", "openai_chat") == CHAT


def test_arguments_that_are_not_json_are_the_agents_to_deal_with():
    """As in a stream: what a model writes there must not decide whether a trial counts."""
    whole = translate_response(_chat_answer("tool_calls", tool_calls=[CALL]), "openai_chat", "anthropic")
    assert whole["content"][0]["input"] == {"malformed_arguments": ARGUMENTS}
    cut = translate_response(_chat_answer("length", tool_calls=[CALL]), "openai_chat", "anthropic")
    assert (cut["content"][0]["input"], cut["stop_reason"]) == ({}, "max_tokens")


@pytest.mark.parametrize(
    ("target", "levels"), [("anthropic", 250), ("google", 250), ("anthropic", 1020), ("google", 1020)]
)
def test_arguments_nested_too_deeply_to_be_written_are_text(target, levels):
    deep = '{"a":' * levels + "1" + "}" * levels
    called = {"id": "c", "type": "function", "function": {"name": "f", "arguments": deep}}
    answer = {"choices": [{"message": {"tool_calls": [called]}, "finish_reason": "tool_calls"}]}
    written = orjson.dumps(translate_response(answer, "openai_chat", target))
    assert orjson.dumps({"malformed_arguments": deep}) in written


def test_an_answer_with_calls_stops_for_them_whatever_the_server_says():
    called = {**CALL, "function": {"name": "f", "arguments": "{}"}}
    whole = translate_response(_chat_answer("stop", tool_calls=[called]), "openai_chat", "anthropic")
    assert whole["stop_reason"] == "tool_use"


FIELDS = (
    "model messages input system instructions tools tool_choice stop text reasoning response_format role content type "
    "contents parts functionCall functionResponse inlineData thought generationConfig thinkingConfig systemInstruction "
    "functionDeclarations toolConfig candidates finishReason"
)
ANYTHING = st.dictionaries(
    st.sampled_from(FIELDS.split()), JSON | st.lists(st.dictionaries(st.sampled_from(FIELDS.split()), JSON), max_size=3)
)


@given(st.sampled_from(PAIRS), ANYTHING | requests())
def test_no_payload_raises_anything_else(pair, payload):
    for function in (translate_request, translate_response):
        try:
            function(payload, *pair)
        except Untranslatable:
            continue


OPENAI_CHAT: DialectName = "openai_chat"
OPENAI_RESPONSES: DialectName = "openai_responses"
ANTHROPIC: DialectName = "anthropic"
CLAUDE_LOSES = ("context_management", "cache_control", "tools[2] (web_search_20250305)", "metadata")
CODEX_LOSES = ("prompt_cache_key", "client_metadata")
CODEX_TOOLS = ("tools[2] (namespace multi_agent_v1)", "tools[3] (web_search)")


def lenient(payload: dict[str, Any], here: DialectName, there: DialectName) -> tuple[dict[str, Any], tuple[str, ...]]:
    translated = translate(payload, here, there, "lenient")
    assert complaint(there, translated.payload) is None
    return translated.payload, translated.omitted


@pytest.mark.parametrize(
    ("payload", "here", "there", "omitted"),
    [
        (CLAUDE_CODE, ANTHROPIC, OPENAI_CHAT, (*CLAUDE_LOSES, "messages[1].content[0].signature")),
        (CLAUDE_CODE, ANTHROPIC, OPENAI_RESPONSES, CLAUDE_LOSES),
        (CODEX, OPENAI_RESPONSES, OPENAI_CHAT, (*CODEX_LOSES, *CODEX_TOOLS, "reasoning.summary")),
        (
            CODEX,
            OPENAI_RESPONSES,
            ANTHROPIC,
            (*CODEX_LOSES, *CODEX_TOOLS, "text.verbosity", "input[2] (reasoning)"),
        ),
        (
            CODEX_ADDING_TOOLS,
            OPENAI_RESPONSES,
            OPENAI_CHAT,
            (*CODEX_LOSES, "input[0].tools[1] (namespace clock)", "reasoning.summary"),
        ),
        (KIMI, OPENAI_CHAT, ANTHROPIC, ("prompt_cache_key", "messages[2].reasoning_content")),
        (KIMI, OPENAI_CHAT, OPENAI_RESPONSES, ("prompt_cache_key",)),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_real_agents_are_understood_by_the_strictest_provider(payload, here, there, omitted):
    found = lenient(payload, here, there)[1]
    assert set(found) == set(omitted)
    assert len(found) == len(omitted)


def test_claude_code_in_the_words_of_chat():
    said, _ = lenient(CLAUDE_CODE, ANTHROPIC, OPENAI_CHAT)
    assert said["reasoning_effort"] == "high"
    assert [tool["function"]["name"] for tool in said["tools"]] == ["Bash"]
    call = {"id": "t1", "type": "function", "function": {"name": "Bash", "arguments": '{"command":"ls"}'}}
    assert said["messages"][2:] == [
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": "x.txt"},
    ]


def test_claude_code_in_the_words_of_responses():
    said, _ = lenient(CLAUDE_CODE, ANTHROPIC, OPENAI_RESPONSES)
    assert said["reasoning"] == {"effort": "high", "summary": "auto"}
    assert said["include"] == ["reasoning.encrypted_content"]
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "c2ln"}
    assert thought in said["input"]


@pytest.mark.parametrize("payload", [CODEX, CODEX_ADDING_TOOLS])
def test_codex_in_the_words_of_anthropic(payload):
    said, _ = lenient(payload, OPENAI_RESPONSES, ANTHROPIC)
    assert said["output_config"] == {"effort": "low"}
    assert said["thinking"] == {"type": "adaptive", "display": "summarized"}
    patching = next(tool for tool in said["tools"] if tool["name"] == "apply_patch")
    assert patching["input_schema"]["required"] == ["input"]
    assert "start: hunk+" in patching["input_schema"]["properties"]["input"]["description"]
    assert {tool["name"] for tool in said["tools"]} == {"run", "apply_patch"}


def test_an_earlier_patch_of_codex_is_an_earlier_call():
    said, _ = lenient(CODEX, OPENAI_RESPONSES, ANTHROPIC)
    used = {"type": "tool_use", "id": "c2", "name": "apply_patch", "input": {"input": PATCH}}
    assert used in said["messages"][-2]["content"]
    assert said["messages"][-1]["content"][-1] == {"type": "tool_result", "tool_use_id": "c2", "content": "Success."}


@pytest.mark.parametrize(
    ("asked", "here", "there", "written"),
    [
        (
            {"reasoning_effort": "minimal"},
            OPENAI_CHAT,
            ANTHROPIC,
            {"output_config": {"effort": "low"}, "thinking": {"type": "adaptive"}},
        ),
        (
            {"reasoning_effort": "xhigh"},
            OPENAI_CHAT,
            ANTHROPIC,
            {"output_config": {"effort": "xhigh"}, "thinking": {"type": "adaptive"}},
        ),
        ({"reasoning_effort": "none"}, OPENAI_CHAT, ANTHROPIC, {"thinking": {"type": "disabled"}}),
        (
            {"reasoning_effort": "high", "temperature": 0.2},
            OPENAI_CHAT,
            ANTHROPIC,
            {"output_config": {"effort": "high"}},
        ),
        ({"output_config": {"effort": "max"}}, ANTHROPIC, OPENAI_CHAT, {"reasoning_effort": "xhigh"}),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            ANTHROPIC,
            OPENAI_CHAT,
            {"reasoning_effort": "low"},
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 8192}},
            ANTHROPIC,
            OPENAI_CHAT,
            {"reasoning_effort": "medium"},
        ),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 31999}},
            ANTHROPIC,
            OPENAI_CHAT,
            {"reasoning_effort": "high"},
        ),
        ({"thinking": {"type": "disabled"}}, ANTHROPIC, OPENAI_CHAT, {}),
        (
            {"thinking": {"type": "adaptive", "display": "omitted"}},
            ANTHROPIC,
            OPENAI_RESPONSES,
            {"include": ["reasoning.encrypted_content"]},
        ),
        ({"metadata": {"user_id": "u"}}, ANTHROPIC, OPENAI_CHAT, {"user": "u"}),
        ({"user": "u"}, OPENAI_CHAT, ANTHROPIC, {"metadata": {"user_id": "u"}}),
        ({"user": "u"}, OPENAI_CHAT, OPENAI_RESPONSES, {"user": "u"}),
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
    said, _ = lenient(asked, OPENAI_CHAT, ANTHROPIC)
    assert said["output_config"] == {"format": {"type": "json_schema", "schema": SCHEMA}}
    assert lenient(said, ANTHROPIC, OPENAI_CHAT)[0]["response_format"] == shape
    older = {"model": "m", "max_tokens": 1, "messages": HI, "output_format": {"type": "json_schema", "schema": SCHEMA}}
    assert lenient(older, ANTHROPIC, OPENAI_CHAT)[0]["response_format"] == shape


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
    said, omitted = lenient(asked, OPENAI_RESPONSES, ANTHROPIC)
    assert said["tool_choice"] == written
    assert ("tool_choice" in omitted) == noted


def test_without_a_tool_there_is_nothing_to_choose():
    asked = {"model": "m", "input": "hi", "tools": [{"type": "web_search"}], "tool_choice": "required"}
    said, omitted = lenient(asked, OPENAI_RESPONSES, OPENAI_CHAT)
    assert said.keys() == {"model", "messages"}
    assert omitted == ("tools[0] (web_search)",)


def test_deferred_tools_are_offered_once_they_are_found():
    found = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "tool_reference", "tool_name": "Late"}]}
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Search", "input": {}}]}
    tools = [{"name": name, "input_schema": SCHEMA, "defer_loading": name != "Search"} for name in ("Search", "Late")]
    asked = {"model": "m", "max_tokens": 9, "messages": [*HI, use], "tools": tools}
    assert [
        tool["function"]["name"] for tool in translate(asked, ANTHROPIC, OPENAI_CHAT, "lenient").payload["tools"]
    ] == ["Search"]
    said, omitted = lenient(
        {**asked, "messages": [*HI, use, {"role": "user", "content": [found]}]},
        ANTHROPIC,
        OPENAI_CHAT,
    )
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
    said, omitted = lenient({"model": "m", "max_tokens": 9, "messages": asked}, ANTHROPIC, OPENAI_CHAT)
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
    said, _ = lenient({"model": "m", "messages": [*HI, spoken, output]}, ANTHROPIC, OPENAI_CHAT)
    assert said["messages"][1]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


def test_arguments_that_are_no_json_are_told_as_they_are():
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "[not json"}}
    asked = [*HI, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "no"}]
    said, _ = lenient({"model": "m", "messages": asked}, OPENAI_CHAT, ANTHROPIC)
    assert said["messages"][1]["content"][0]["input"] == {"malformed_arguments": "[not json"}


@pytest.mark.parametrize(
    ("payload", "here", "field"),
    [
        ({"model": "m", "input": [{"type": "item_reference", "id": "x"}]}, OPENAI_RESPONSES, "input[0].type"),
        ({"model": "m", "input": "x", "previous_response_id": "r"}, OPENAI_RESPONSES, "previous_response_id"),
        (
            {"model": "m", "messages": [{"role": "user", "content": [{"type": "document"}]}]},
            ANTHROPIC,
            "messages[0]",
        ),
    ],
)
def test_content_that_cannot_be_said_is_refused(payload, here, field):
    with pytest.raises(Untranslatable) as refusal:
        translate(payload, here, OPENAI_CHAT, "lenient")
    assert refusal.value.field.startswith(field)


EXTRAS: dict[DialectName, dict[str, Any]] = {
    OPENAI_CHAT: {
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
    OPENAI_RESPONSES: {
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
    ANTHROPIC: {
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


def _texts_in(payload: dict[str, Any]) -> set[str]:
    names = ("messages", "input", "system", "instructions")
    return {text for name in names for text in _texts(payload.get(name)) if text}


@settings(max_examples=40)
@given(st.data(), requests(), st.sampled_from([OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC]))
def test_documented_fields_never_stop_an_agent_and_nothing_is_made_up(data, asked, here):
    mine = asked if here == OPENAI_CHAT else translate(asked, OPENAI_CHAT, here, "lenient").payload
    mine |= data.draw(st.fixed_dictionaries({}, optional=EXTRAS[here]))
    for there in {OPENAI_CHAT, OPENAI_RESPONSES, ANTHROPIC} - {here}:
        translated = translate(mine, here, there, "lenient")
        assert _texts_in(translated.payload) == _texts_in(mine)
        named = {name.partition(".")[0].partition("[")[0] for name in translated.omitted}
        assert named <= mine.keys()


STREAMS = {
    "openai_chat": [streams.CHAT_TEXT, streams.CHAT_TOOLS, streams.CHAT_REASONING],
    "openai_responses": [streams.RESPONSES_TEXT, streams.RESPONSES_TOOLS, streams.RESPONSES_REASONING],
    "anthropic": [streams.ANTHROPIC_TEXT, streams.ANTHROPIC_TOOLS, streams.ANTHROPIC_THINKING],
    "google": [streams.GOOGLE_TEXT, streams.GOOGLE_TOOLS, streams.GOOGLE_THINKING],
}
WAYS = [(here, there) for here in DIALECTS for there in DIALECTS if here != there]
WAYS_TO_SDKS = [way for way in WAYS if way[1] != "google"]
EVENT_TYPES: dict[str, TypeAdapter[Any]] = {
    "openai_chat": TypeAdapter(openai.types.chat.ChatCompletionChunk),
    "openai_responses": TypeAdapter(openai.types.responses.ResponseStreamEvent),
    "anthropic": TypeAdapter(anthropic.types.RawMessageStreamEvent),
    "google": TypeAdapter(GoogleAnswer),
}


def translate_stream(events, here, there):
    translator = StreamTranslator(here, there)
    return [out for event in events for out in translator.feed(event)] + translator.close()


def _without(value, *names):
    """A copy without ids of parts and times, which a stream and a whole answer need not share."""
    if isinstance(value, dict):
        return {key: _without(item, *names) for key, item in value.items() if key not in names and item is not None}
    return [_without(item, *names) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("here", "there"), WAYS)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_translated_stream_is_the_translated_answer(here, there, which):
    events = STREAMS[here][which]
    translated = translate_stream(events, here, there)
    for event in translated:
        if event.data != "[DONE]":
            EVENT_TYPES[there].validate_json(event.data)
    assembler = assemble(there, translated)
    answer = assembler.response()
    assert assembler.finished
    JUDGES[there].model_validate(answer)
    expected = translate_response(assemble(here, events).response(), here, there)
    assert _without(answer, "created") == _without(expected, "created")


@pytest.mark.parametrize(("here", "there"), WAYS_TO_SDKS)
def test_the_sdks_read_translated_streams(here, there):
    translated = translate_stream(STREAMS[here][1], here, there)
    count = sum(event.data != "[DONE]" for event in translated)
    assert len(list(sdk_stream(there, translated))) == count


CONTENT: dict[str, Any] = {
    "openai_chat": lambda answer: answer["choices"][0]["message"],
    "openai_responses": lambda answer: answer["output"],
    "anthropic": lambda answer: answer["content"],
}
SDK_ONLY = ("parsed", "parsed_arguments", "parsed_output", "index")  # what the SDKs' own helpers add


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(
    ("here", "there"),
    [*WAYS_TO_SDKS, *((dialect, dialect) for dialect in DIALECTS if dialect != "google")],
)
def test_the_sdks_put_the_same_answer_together(here, there, which):
    translated = translate_stream(STREAMS[here][which], here, there)
    theirs = sdk_answer(there, translated).model_dump(mode="json")
    ours = assemble(there, translated).response()
    content = CONTENT[there]
    assert _without(content(ours), *SDK_ONLY) == _without(content(theirs), *SDK_ONLY)
    assert usage_of(there, ours) == usage_of(there, theirs)
    assert DIALECTS[there].finish_reason(ours) == DIALECTS[there].finish_reason(theirs)


def test_text_is_passed_on_at_once():
    translator = StreamTranslator("openai_chat", "anthropic")
    produced = [[event.event for event in translator.feed(event)] for event in streams.CHAT_TEXT]
    assert produced[0] == ["message_start"]
    assert produced[1] == ["content_block_start", "content_block_delta"]
    assert produced[2] == ["content_block_delta"]


def test_parallel_calls_that_grow_in_turns():
    deltas = [
        streams.chat_call(0, "a", "f"),
        streams.chat_call(1, "b", "g"),
        streams.chat_arguments(0, '{"x":'),
        streams.chat_arguments(1, "{}"),
        streams.chat_arguments(0, "1}"),
    ]
    events = streams.chat(*deltas, finish="tool_calls")
    translated = translate_stream(events, "openai_chat", "openai_responses")
    done = [orjson.loads(event.data) for event in translated if event.event == "response.function_call_arguments.done"]
    assert [event["arguments"] for event in done] == ['{"x":1}', "{}"]
    output = assemble("openai_responses", translated).response()["output"]
    assert [item["arguments"] for item in output] == ['{"x":1}', "{}"]
    content = assemble("anthropic", translate_stream(events, "openai_chat", "anthropic")).response()["content"]
    assert [block["input"] for block in content] == [{"x": 1}, {}]


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_the_end_is_said_once(here, there):
    ends = {
        "openai_chat": '"finish_reason":"tool_calls"',
        "anthropic": "message_stop",
        "openai_responses": "response.completed",
        "google": '"finishReason":"STOP"',
    }
    translated = translate_stream(STREAMS[here][1], here, there)
    assert sum(ends[there] in event.data for event in translated) == 1


def test_blocks_of_anthropic_come_one_after_the_other():
    events = [orjson.loads(event.data) for event in translate_stream(streams.CHAT_TOOLS, "openai_chat", "anthropic")]
    marks = [(event["type"], event["index"]) for event in events if event["type"].startswith("content_block_st")]
    assert marks == [(kind, i) for i in range(3) for kind in ("content_block_start", "content_block_stop")]


def test_a_stream_that_never_said_that_it_begins():
    translated = translate_stream(streams.ANTHROPIC_TEXT[1:], "anthropic", "openai_chat")
    assert orjson.loads(translated[0].data)["choices"][0]["delta"]["role"] == "assistant"
    assert assemble("openai_chat", translated).response()["choices"][0]["message"]["content"] == "Hello, wörld"


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_a_cut_stream_stays_cut(here, there):
    assembler = assemble(there, translate_stream(STREAMS[here][1][: 3 if here == "google" else 5], here, there))
    assert not assembler.finished
    assert "Let me look." in str(assembler.response())


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_errors_are_told_in_the_agents_words(here, there):
    events = {
        "openai_chat": streams.CHAT_ERROR,
        "openai_responses": streams.RESPONSES_ERROR,
        "anthropic": streams.ANTHROPIC_ERROR,
        "google": streams.GOOGLE_ERROR,
    }[here]
    translated = translate_stream(events, here, there)
    assert assemble(there, translated).error.message == "overloaded"
    if there == "google":
        return
    with pytest.raises((openai.APIError, anthropic.APIError), match="overloaded"):
        collections.deque(sdk_stream(there, translated))


def test_a_stream_without_its_last_mark_is_still_ended():
    translated = translate_stream(streams.CHAT_TEXT[:-1], "openai_chat", "anthropic")
    assert assemble("anthropic", translated).finished


def test_usage_written_for_nobody_can_be_hidden():
    translated = translate_stream(streams.ANTHROPIC_TEXT, "anthropic", "openai_chat")
    assert [DIALECTS["openai_chat"].hides(event.data) for event in translated].count(True) == 1


def test_the_same_dialect_passes_unchanged():
    assert translate_stream(streams.CHAT_TOOLS, "openai_chat", "openai_chat") == streams.CHAT_TOOLS


def test_content_without_a_place_is_refused():
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}}
    with pytest.raises(Untranslatable, match="server_tool_use"):
        translate_stream(streams.anthropic(block), "anthropic", "openai_chat")


@given(st.sampled_from(WAYS), st.lists(damaged(), max_size=6))
def test_damaged_events_raise_nothing_else(way, events):
    try:
        produced = translate_stream(events, *way)
    except Untranslatable:
        return
    assert all(
        isinstance(event, SseEvent) and (event.data == "[DONE]" or orjson.loads(event.data)) for event in produced
    )
