"""Events come out the same however the network cuts the stream; a call that has ended becomes a line of its log."""

import asyncio
import datetime as dt
import json
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import ProviderError
from seatrial.gateway.base import (
    EndedCall,
    KnownAs,
    SseEvent,
    SseReader,
    TokenCounts,
    ToldReason,
    as_line,
    checked,
    encode_event,
    line_values,
)
from seatrial.gateway.translate import StreamTranslator, translate, translate_response
from seatrial.gateway.upstreams.scripted import ScriptedModel, read_asked
from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import CallError, DialectName, ModelCall, TokenUsage
from tests.gateway.test_dialects_streams import assemble
from tests.gateway.upstream_calls import ask, call

EVENT_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
EVENT_NAME = st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1, max_size=8)
LINES = st.sampled_from(
    [
        b'data: {"a":1}',
        b"data:x",
        b"data",
        b"event: ping",
        b"event:",
        b": keep-alive",
        b"id: 7",
        b"",
        b"",
        "data: é😀".encode(),
    ]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])
STREAMS = st.lists(st.tuples(LINES, LINE_ENDS).map(b"".join), max_size=12).map(b"".join)


def read(*chunks: bytes, limit: int = 10_000) -> list[SseEvent]:
    reader = SseReader(limit)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.close()


@given(st.sampled_from([b"", b"\xef\xbb\xbf"]), STREAMS, st.lists(st.integers(0, 200), max_size=8))
def test_any_split_gives_the_same_events(start, stream, cuts):
    whole = start + stream
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    chunks = [whole[left:right] for left, right in pairwise(places)]
    expected = read(whole)
    assert read(*chunks) == expected
    assert read(*(whole[i : i + 1] for i in range(len(whole)))) == expected


@given(st.lists(st.builds(SseEvent, EVENT_NAME, EVENT_TEXT), max_size=5))
def test_what_is_written_is_what_is_read(events):
    assert read(b"".join(encode_event(event) for event in events)) == events


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [(None, "a"), (None, "b")]),
        (b"event: x\ndata: a\ndata: b\n\n", [("x", "a\nb")]),
        (b"\xef\xbb\xbfdata: a\r\n\r\n", [(None, "a")]),
        (b"data: a\r\rdata: b\r\r", [(None, "a"), (None, "b")]),
        (b": comment\n\n\n\ndata:  two spaces\n\n", [(None, " two spaces")]),
        (b"event: lonely\n\ndata\n\n", [(None, "")]),
        (b"data: not ended", [(None, "not ended")]),
        (b"data: \xff\n\n", [(None, "\ufffd")]),
    ],
)
def test_fields_and_line_ends(stream, events):
    assert read(stream) == events


def test_an_event_without_end_is_refused():
    reader = SseReader(limit=100)
    for _ in range(7):
        assert reader.feed(b"data: 12345678") == []
    with pytest.raises(ProviderError, match="larger than 100 bytes"):
        reader.feed(b"data: 12345678")


def test_many_events_do_not_add_up_to_the_limit():
    reader = SseReader(limit=100)
    assert sum(len(reader.feed(b"data: 1234567890\n\nda" if i % 2 == 0 else b"ta: x\n\n")) for i in range(100)) == 100


COUNTS: TokenCounts = {"input_tokens": 1, "cached_tokens": 0, "output_tokens": 2, "reasoning_tokens": 0}
NOT_KEPT = {"not_kept": "nested deeper than 100 levels"}


def ended(**fields: Any) -> EndedCall:
    """A call; what is not given is as in a call that was never answered."""
    values: dict[str, Any] = {"index": 0, "path": "/v1/messages", "started_at": dt.datetime(2026, 1, 2, tzinfo=dt.UTC)}
    values |= {"duration_sec": 0.5, "stream": False, "messages": []}
    return EndedCall(**{**values, **fields})  # type: ignore[typeddict-item]


def nested(depth: int) -> dict[str, Any]:
    """An object of so many levels below the first."""
    value: dict[str, Any] = {}
    for number in range(depth):
        value = {"in": value} if number % 2 else {"in": [], "deeper": value}
    return value


def test_it_has_the_fields_of_a_model_call():
    assert {*EndedCall.__annotations__, "known", "known_parts", "marks"} == ModelCall.model_fields.keys()
    assert TokenCounts.__annotations__.keys() == TokenUsage.model_fields.keys()
    assert ToldReason.__annotations__.keys() == CallError.model_fields.keys()


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"error": {"kind": "budget", "message": "enough"}},
        {"error": {"kind": "agent", "status": 400, "message": "no"}, "status": 400, "response": {"error": None}},
        {"usage": COUNTS, "cost_usd": 0.25, "dialect": "anthropic", "request": {"a": [None]}},
        {"request": nested(MAX_JSON_DEPTH), "response": {"many": [[]] * 200}, "messages": [{"content": "{[" * 100}]},
    ],
)
def test_its_line_is_read_as_the_call_that_it_is(fields):
    call = ended(**fields)
    line = as_line(line_values(call))
    assert ModelCall.model_validate_json(line) == checked(call)
    assert checked(call).request == call.get("request")
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")


def test_what_is_not_there_is_not_written():
    call = ended(error={"kind": "budget", "message": "enough"}, usage=COUNTS)
    line = orjson.loads(as_line(line_values(checked(call))))
    assert line.keys() == {"index", "path", "started_at", "duration_sec", "stream", "messages", "usage", "error"}
    assert (line["usage"], line["error"]) == (COUNTS, {"kind": "budget", "message": "enough"})


@pytest.mark.parametrize("depth", [MAX_JSON_DEPTH + 1, 300])
def test_only_what_is_too_deep_is_left_out_and_said_so(depth):
    call = ended(request=nested(depth), response={"fine": 1}, messages=["hello"])
    read = ModelCall.model_validate_json(as_line(line_values(call)))
    assert (read.request, read.response, read.messages) == (NOT_KEPT, {"fine": 1}, ["hello"])
    assert checked(call) == read


def test_what_cannot_be_written_for_another_reason_is_an_error():
    with pytest.raises(orjson.JSONEncodeError):
        as_line(line_values(ended(path="\udc80")))


MEASURE = {"type": "function", "name": "measure", "parameters": {"type": "object", "properties": {}}, "strict": False}
SERVER = {"type": "namespace", "name": "mcp__bench", "description": "Tools.", "tools": [MEASURE]}
OTHERS = {"type": "namespace", "name": "multi_agent_v1", "tools": [{**MEASURE, "name": "spawn"}]}
EARLIER = [
    {"type": "function_call", "call_id": "c0", "namespace": "mcp__bench", "name": "measure", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c0", "output": "4"},
]
REQUEST = {"model": "m", "input": [{"role": "user", "content": "hi"}, *EARLIER], "tools": [SERVER, OTHERS]}
NAME = "mcp__bench__measure"
ANSWERS: dict[DialectName, dict[str, Any]] = {
    "openai_chat": {
        "id": "c",
        "choices": [
            {
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": NAME, "arguments": "{}"}}],
                },
            }
        ],
    },
    "anthropic": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [{"type": "tool_use", "id": "c1", "name": NAME, "input": {}}],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}


def named(item: dict[str, Any]) -> tuple[str | None, str]:
    return item.get("namespace"), item["name"]


@pytest.mark.parametrize("there", ["openai_chat", "anthropic"])
def test_the_model_gets_a_servers_tools_and_the_agent_its_calls(there):
    told = translate(REQUEST, "openai_responses", there, "lenient")
    assert dict(told.agent_tools.known) == {NAME: KnownAs("measure", "mcp__bench")}
    assert str(told.payload).count(NAME) == 2  # its definition, and the earlier call
    assert [name for name in told.omitted if "tools" in name] == ["tools[1] (namespace multi_agent_v1)"]
    heard = translate_response(ANSWERS[there], there, "openai_responses", told.agent_tools)
    assert [named(item) for item in heard["output"]] == [("mcp__bench", "measure")]


def test_calls_that_are_streamed_have_their_namespace_from_the_start():
    told = translate(REQUEST, "openai_responses", "anthropic", "lenient")
    translator = StreamTranslator("anthropic", "openai_responses", told.agent_tools)
    block = {"type": "tool_use", "id": "c1", "name": NAME, "input": {}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    events = [
        SseEvent("message_start", '{"type":"message_start","message":{"id":"m","model":"m","content":[],"usage":{}}}'),
        SseEvent("content_block_start", json.dumps(start)),
        SseEvent("content_block_stop", '{"type":"content_block_stop","index":0}'),
        SseEvent("message_delta", '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{}}'),
        SseEvent("message_stop", '{"type":"message_stop"}'),
    ]
    heard = [each for event in events for each in translator.feed(event)] + translator.close()
    begun = next(each for each in heard if each.event == "response.output_item.added")
    assert '"namespace":"mcp__bench"' in begun.data
    assert named(assemble("openai_responses", heard).response()["output"][0]) == ("mcp__bench", "measure")


def test_a_name_that_no_other_dialect_takes_is_left_out_and_noted():
    long = {**SERVER, "tools": [{**MEASURE, "name": "m" * 60}]}
    told = translate({**REQUEST, "tools": [long]}, "openai_responses", "anthropic", "lenient")
    assert not told.payload.get("tools")
    assert any("m" * 60 in name for name in told.omitted)


async def _said(script: ScriptedModel) -> dict[str, Any]:
    answered = await ask(script, call("openai_responses", tools=[SERVER]))
    output: dict[str, Any] = answered.json["output"][-1]
    return output


def test_scripts_name_a_servers_tools_as_other_agents_do():
    request = call("openai_responses", tools=[SERVER, OTHERS])
    assert read_asked(request).tools == (NAME, "spawn")
    script = ScriptedModel([{"tool_calls": [{"name": NAME, "arguments": {}}]}])
    assert named(asyncio.run(_said(script))) == ("mcp__bench", "measure")
