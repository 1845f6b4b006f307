"""Tools of MCP servers, which Codex groups in namespaces: on models of other dialects, in scripts, and back."""

import asyncio
import json
from typing import Any

import pytest

from seatrial.gateway.agent_tools import KnownAs
from seatrial.gateway.sse import SseEvent
from seatrial.gateway.translate import StreamTranslator, translate, translate_response
from seatrial.gateway.upstreams.asked import read_asked
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import Dialect
from tests.gateway.test_dialects_streams import assemble
from tests.gateway.upstream_calls import ask, call

MEASURE = {"type": "function", "name": "measure", "parameters": {"type": "object", "properties": {}}, "strict": False}
SERVER = {"type": "namespace", "name": "mcp__bench", "description": "Tools.", "tools": [MEASURE]}
OTHERS = {"type": "namespace", "name": "multi_agent_v1", "tools": [{**MEASURE, "name": "spawn"}]}
EARLIER = [
    {"type": "function_call", "call_id": "c0", "namespace": "mcp__bench", "name": "measure", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c0", "output": "4"},
]
REQUEST = {"model": "m", "input": [{"role": "user", "content": "hi"}, *EARLIER], "tools": [SERVER, OTHERS]}
NAME = "mcp__bench__measure"
ANSWERS: dict[Dialect, dict[str, Any]] = {
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
