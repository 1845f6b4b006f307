"""A translated stream amounts to the translated answer, and the SDKs can read it."""

import collections
from typing import Any

import anthropic.types
import openai.types.chat
import openai.types.responses
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.sse import SseEvent
from seatrial.gateway.translate import StreamTranslator, Untranslatable, translate_response
from tests.gateway import dialect_streams as streams
from tests.gateway.google_answers import GoogleAnswer
from tests.gateway.sdk_streams import sdk_answer, sdk_stream
from tests.gateway.test_dialects_streams import DIALECTS, JUDGES, assemble, damaged

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


def translate(events, here, there):
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
    translated = translate(events, here, there)
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
    translated = translate(STREAMS[here][1], here, there)
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
    ("here", "there"), [*WAYS_TO_SDKS, *((dialect, dialect) for dialect in DIALECTS if dialect != "google")]
)
def test_the_sdks_put_the_same_answer_together(here, there, which):
    translated = translate(STREAMS[here][which], here, there)
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
    translated = translate(events, "openai_chat", "openai_responses")
    done = [orjson.loads(event.data) for event in translated if event.event == "response.function_call_arguments.done"]
    assert [event["arguments"] for event in done] == ['{"x":1}', "{}"]
    output = assemble("openai_responses", translated).response()["output"]
    assert [item["arguments"] for item in output] == ['{"x":1}', "{}"]
    content = assemble("anthropic", translate(events, "openai_chat", "anthropic")).response()["content"]
    assert [block["input"] for block in content] == [{"x": 1}, {}]


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_the_end_is_said_once(here, there):
    ends = {
        "openai_chat": '"finish_reason":"tool_calls"',
        "anthropic": "message_stop",
        "openai_responses": "response.completed",
        "google": '"finishReason":"STOP"',
    }
    translated = translate(STREAMS[here][1], here, there)
    assert sum(ends[there] in event.data for event in translated) == 1


def test_blocks_of_anthropic_come_one_after_the_other():
    events = [orjson.loads(event.data) for event in translate(streams.CHAT_TOOLS, "openai_chat", "anthropic")]
    marks = [(event["type"], event["index"]) for event in events if event["type"].startswith("content_block_st")]
    assert marks == [(kind, i) for i in range(3) for kind in ("content_block_start", "content_block_stop")]


def test_a_stream_that_never_said_that_it_begins():
    translated = translate(streams.ANTHROPIC_TEXT[1:], "anthropic", "openai_chat")
    assert orjson.loads(translated[0].data)["choices"][0]["delta"]["role"] == "assistant"
    assert assemble("openai_chat", translated).response()["choices"][0]["message"]["content"] == "Hello, wörld"


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_a_cut_stream_stays_cut(here, there):
    assembler = assemble(there, translate(STREAMS[here][1][: 3 if here == "google" else 5], here, there))
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
    translated = translate(events, here, there)
    assert assemble(there, translated).error.message == "overloaded"
    if there == "google":
        return
    with pytest.raises((openai.APIError, anthropic.APIError), match="overloaded"):
        collections.deque(sdk_stream(there, translated))


def test_a_stream_without_its_last_mark_is_still_ended():
    translated = translate(streams.CHAT_TEXT[:-1], "openai_chat", "anthropic")
    assert assemble("anthropic", translated).finished


def test_usage_written_for_nobody_can_be_hidden():
    translated = translate(streams.ANTHROPIC_TEXT, "anthropic", "openai_chat")
    assert [DIALECTS["openai_chat"].hides(event.data) for event in translated].count(True) == 1


def test_the_same_dialect_passes_unchanged():
    assert translate(streams.CHAT_TOOLS, "openai_chat", "openai_chat") == streams.CHAT_TOOLS


def test_content_without_a_place_is_refused():
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "server_tool_use"}}
    with pytest.raises(Untranslatable, match="server_tool_use"):
        translate(streams.anthropic(block), "anthropic", "openai_chat")


@given(st.sampled_from(WAYS), st.lists(damaged(), max_size=6))
def test_damaged_events_raise_nothing_else(way, events):
    try:
        produced = translate(events, *way)
    except Untranslatable:
        return
    assert all(
        isinstance(event, SseEvent) and (event.data == "[DONE]" or orjson.loads(event.data)) for event in produced
    )
