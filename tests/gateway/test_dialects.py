"""Requests are read and changed in each dialect's own words, and errors are told in its own shape."""

import anthropic
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.dialects import dialect_of
from seatrial.gateway.fields import ToldError, told_error
from tests.gateway import dialect_streams as streams
from tests.gateway.sdk_streams import sdk_stream
from tests.gateway.test_dialects_streams import DIALECTS, JSON

WITH_SDK = ("openai_chat", "openai_responses", "anthropic")
CHAT, RESPONSES, ANTHROPIC = (DIALECTS[name] for name in WITH_SDK)
GOOGLE = DIALECTS["google"]
SAMPLING = {"temperature": 0.5, "top_p": None, "max_tokens": 7, "seed": 3, "stop": "END", "unheard_of": 1}


@pytest.mark.parametrize(
    ("path", "dialect"),
    [
        ("/v1/chat/completions", "openai_chat"),
        ("/chat/completions/?api-version=1", "openai_chat"),
        ("/v1/responses", "openai_responses"),
        ("/responses/", "openai_responses"),
        ("/v1/messages?beta=true", "anthropic"),
        ("/messages", "anthropic"),
        ("/v1beta/models/m:generateContent", "google"),
        ("/v1/models/m:streamGenerateContent?alt=sse", "google"),
        ("/v1beta/models/m:countTokens", None),
        ("/v1/messages/count_tokens", None),
        ("/v1/responses/resp_1", None),
        ("/v1/models", None),
        ("/v1/embeddings", None),
        ("/v1", None),
        ("", None),
    ],
)
def test_paths(path, dialect):
    assert dialect_of(path) == dialect


def test_conversations():
    messages = [{"role": "user", "content": "hi"}]
    for module in (CHAT, ANTHROPIC):
        payload = {"model": "m", "system": "s", "messages": messages}
        assert module.messages(payload) == messages
        assert module.without_messages(payload) == {"model": "m", "system": "s"}
    assert RESPONSES.messages({"instructions": "s", "input": "hi"}) == ["hi"]
    assert RESPONSES.messages({"input": messages}) == messages
    assert RESPONSES.without_messages({"instructions": "s", "input": "hi"}) == {"instructions": "s"}


@pytest.mark.parametrize(
    ("module", "payload", "expected"),
    [
        (CHAT, {"top_p": 1, "x": 2}, {"top_p": 1, "x": 2, "max_completion_tokens": 7, "seed": 3, "stop": "END"}),
        (CHAT, {"max_tokens": 9}, {"max_tokens": 7, "seed": 3, "stop": "END"}),
        (RESPONSES, {"top_p": 1}, {"top_p": 1, "max_output_tokens": 7}),
        (ANTHROPIC, {"max_tokens": 9}, {"max_tokens": 7, "stop_sequences": ["END"]}),
    ],
)
def test_values_of_the_run_override_where_set(module, payload, expected):
    before = dict(payload)
    assert module.with_overrides(payload, "big", SAMPLING) == {"model": "big", "temperature": 0.5, **expected}
    assert payload == before
    assert module.with_overrides(payload, None, {}) == before


def test_usage_is_asked_for_and_hidden_only_when_the_agent_did_not_ask():
    asked = CHAT.with_usage({"stream": True, "stream_options": {"include_obfuscation": False}})
    assert asked["stream_options"] == {"include_obfuscation": False, "include_usage": True}
    for payload in ({"stream": False}, {"stream": True, "stream_options": {"include_usage": True}}, asked):
        assert CHAT.with_usage(payload) is payload
    assert [CHAT.hides(event.data) for event in streams.CHAT_TEXT].count(True) == 1
    assert CHAT.hides(streams.CHAT_TEXT[-2].data)


def test_usage_counts_all_tokens_of_the_input():
    read = {"input_tokens": 1, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 4}
    cached = {"usage": {**read, "output_tokens": 8}}
    assert ANTHROPIC.counts(cached)["input_tokens"] == 7
    assert ANTHROPIC.counts(cached)["cached_tokens"] == 2
    thinking = {"promptTokenCount": 5, "toolUsePromptTokenCount": 2, "thoughtsTokenCount": 3, "candidatesTokenCount": 1}
    counts = GOOGLE.counts({"usageMetadata": thinking})
    assert (counts["input_tokens"], counts["output_tokens"], counts["reasoning_tokens"]) == (7, 4, 3)
    assert ANTHROPIC.counts(cached)["cache_write_tokens"] == 4
    for module in DIALECTS.values():
        assert module.counts({"usage": None}) is None


@pytest.mark.parametrize(("said", "kept"), [(3, 3), (9, 4), (0, None), (None, None), ("3", None), (-1, None)])
def test_what_is_stored_for_an_hour_is_a_part_of_what_is_stored(said, kept):
    told = {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": said}
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 4, "cache_creation": told, "output_tokens": 8}
    assert ANTHROPIC.counts({"usage": usage}).get("cache_write_1h_tokens") == kept


@pytest.mark.parametrize("stored", [7, 0, None, "7", -7, [7]])
def test_openai_tells_what_it_stored_beside_what_it_had(stored):
    details = {"cached_tokens": 2, "cache_write_tokens": stored}
    chat = {"prompt_tokens": 9, "prompt_tokens_details": details, "completion_tokens": 1}
    responses = {"input_tokens": 9, "input_tokens_details": details, "output_tokens": 1}
    for counts in (CHAT.counts({"choices": [{}], "usage": chat}), RESPONSES.counts({"usage": responses})):
        assert (counts["input_tokens"], counts.get("cache_write_tokens")) == (9, 7 if stored == 7 else None)


@pytest.mark.parametrize("odd", [-1, "12", 1.5, True, None, 2**62, [3]])
@pytest.mark.parametrize("name", ["input", "output"])
def test_an_odd_count_is_none(name, odd):
    usage = {"input_tokens": 8, "output_tokens": 2, f"{name}_tokens": odd}
    chat = {"prompt_tokens": usage["input_tokens"], "completion_tokens": usage["output_tokens"]}
    assert ANTHROPIC.counts({"content": [], "usage": usage}) is None
    assert RESPONSES.counts({"output": [], "usage": usage}) is None
    assert CHAT.counts({"choices": [{}], "usage": chat}) is None
    google = {"promptTokenCount": usage["input_tokens"], "candidatesTokenCount": usage["output_tokens"]}
    assert (name == "output" and odd is None) or GOOGLE.counts({"usageMetadata": google}) is None  # Google omits zeros


def test_vectors_write_no_tokens():
    assert CHAT.counts({"usage": {"prompt_tokens": 8, "total_tokens": 8}})["output_tokens"] == 0


def test_finish_reason_of_an_incomplete_response():
    cut = streams.response("incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert RESPONSES.finish_reason(cut) == "max_output_tokens"


def test_malformed_requests():
    for module in DIALECTS.values():
        assert "object" in module.check([1])
        assert module.check({"messages": 3}) is not None
    assert CHAT.check({"messages": []}) is None
    assert RESPONSES.check({"previous_response_id": "resp_1"}) is None
    assert RESPONSES.check({"input": "hi"}) is None


FIELDS = [
    *"messages input stream stream_options usage choices error type max_tokens incomplete_details".split(),
    *"contents generationConfig usageMetadata candidates promptFeedback".split(),
]


@given(st.sampled_from(list(DIALECTS.values())), st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_no_payload_makes_a_dialect_raise(module, payload):
    module.check(payload)
    assert isinstance(module.messages(payload), list)
    module.without_messages(payload)
    module.with_overrides(payload, "m", SAMPLING)
    module.with_usage(payload)
    module.hides(orjson.dumps(payload).decode())
    module.counts(payload)
    module.finish_reason(payload)
    told_error(payload)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_error_types_of_anthropic(status, kind):
    body = ANTHROPIC.error_body(status, "provider", "no")
    assert body == {"type": "error", "error": {"type": kind, "message": "no"}}


def test_error_bodies_of_openai():
    body = CHAT.error_body(429, "budget", "spent")
    assert body == {
        "error": {"message": "spent", "type": "insufficient_quota", "param": None, "code": "insufficient_quota"}
    }
    assert CHAT.error_body(503, "provider", "no")["error"]["type"] == "server_error"
    assert RESPONSES.error_body(400, "agent", "no")["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_errors_are_read_back(dialect):
    module = DIALECTS[dialect]
    event = module.error_event(500, "provider", "broken")
    assembler = module.assembler()
    assembler.feed(event)
    assert assembler.error.message == "broken"
    told = told_error(module.error_body(500, "provider", "broken"))
    assert told is not None
    assert told.message == "broken"


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_an_error_may_have_any_text(dialect):
    assert "\\udc80" in DIALECTS[dialect].error_event(500, "provider", "file \udc80").data


def test_error_shapes_in_use():
    assert told_error({"error": "plain"}) == ToldError("error", "plain")
    assert told_error({"error": {"code": "busy", "message": "wait"}}) == ToldError("busy", "wait")
    assert told_error({"error": None, "message": "no error"}) is None


@pytest.mark.parametrize("dialect", WITH_SDK)
def test_the_sdks_raise_our_error_events(dialect):
    event = DIALECTS[dialect].error_event(500, "provider", "broken")
    with pytest.raises((openai.APIError, anthropic.APIError), match="broken"):
        list(sdk_stream(dialect, [event]))
