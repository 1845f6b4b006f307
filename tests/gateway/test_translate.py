"""Translation loses nothing: there and back again is where one was, and what would be lost is refused by name."""

from itertools import permutations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.gateway.dialects import DIALECTS, usage_of
from seatrial.gateway.translate import DEFAULT_MAX_TOKENS, Untranslatable, translate_request, translate_response
from tests.gateway.conversations import answers, requests
from tests.gateway.test_dialects_streams import JSON, JUDGES

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
    for translate in (translate_request, translate_response):
        try:
            translate(payload, *pair)
        except Untranslatable:
            continue
