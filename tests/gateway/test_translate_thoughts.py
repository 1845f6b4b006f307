"""Thoughts go to the agent with what their provider wants back of them, and come back to it as it gave them."""

from typing import Any

import pytest

from seatrial.gateway.base import AgentTools, KnownAs, SseEvent
from seatrial.gateway.translate import StreamTranslator, translate, translate_response
from seatrial.model.trace import DialectName
from seatrial.untrusted.json import dump
from tests.gateway import dialect_streams as streams
from tests.gateway.test_dialects_streams import JUDGES, assemble
from tests.gateway.test_translate import EVENT_TYPES

HI = [{"role": "user", "content": "hi"}]
CALL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [THINKING, CALL],
    "stop_reason": "tool_use",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
ITEM = {
    "type": "reasoning",
    "id": "rs_7",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "encrypted_content": "gAAA",
}
FUNCTION = {"type": "function_call", "id": "fc_1", "call_id": "t", "name": "f", "arguments": "{}"}
RESPONSE = {"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [ITEM, FUNCTION]}


def told(events: list[SseEvent], here: DialectName, there: DialectName, freeform: tuple[str, ...] = ()) -> Any:
    """What a translated stream amounts to; each of its events is one that the SDK knows."""
    tools = AgentTools({name: KnownAs(name, freeform=True) for name in freeform})
    translator = StreamTranslator(here, there, tools)
    out = [each for event in events for each in translator.feed(event)] + translator.close()
    for event in out:
        if event.data != "[DONE]":
            EVENT_TYPES[there].validate_json(event.data)
    return assemble(there, out).response()


def test_anthropic_gets_its_thoughts_back_from_an_agent_of_responses():
    heard = translate_response(MESSAGE, "anthropic", "openai_responses")
    JUDGES["openai_responses"].model_validate(heard)
    assert heard["output"][0]["encrypted_content"] == "c2ln"
    output = {"type": "function_call_output", "call_id": "t", "output": "x"}
    asked = {"model": "m", "input": [*HI, *heard["output"], output], "store": False}
    again = translate(asked, "openai_responses", "anthropic", "strict").payload
    assert again["messages"][1]["content"] == [THINKING, CALL]


def test_openai_gets_its_thoughts_back_from_an_agent_of_anthropic():
    heard = translate_response(RESPONSE, "openai_responses", "anthropic")
    JUDGES["anthropic"].model_validate(heard)
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    asked = {
        "model": "m",
        "max_tokens": 9,
        "messages": [*HI, {"role": "assistant", "content": heard["content"]}, result],
    }
    again = translate(asked, "anthropic", "openai_responses", "strict").payload
    assert again["input"][1] == ITEM


def test_a_stream_tells_signatures_too():
    heard = told(streams.ANTHROPIC_THINKING, "anthropic", "openai_responses")
    signatures = [event.data for event in streams.ANTHROPIC_THINKING if "signature_delta" in event.data]
    assert signatures
    assert heard["output"][0]["type"] == "reasoning"
    assert heard["output"][0]["encrypted_content"] in signatures[0]


def test_a_thought_that_is_not_shown_still_has_its_signature():
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": {**RESPONSE, "output": []}}),
        ("response.output_item.added", {"output_index": 0, "item": {**ITEM, "summary": []}}),
        ("response.output_item.done", {"output_index": 0, "item": {**ITEM, "summary": []}}),
        ("response.completed", {"response": RESPONSE}),
    ]
    heard = told(
        [SseEvent(kind, dump({"type": kind, **fields})) for kind, fields in events], "openai_responses", "anthropic"
    )
    assert heard["content"] == [{"type": "thinking", "thinking": "", "signature": "rs_7 gAAA"}]


@pytest.mark.parametrize("arguments", ['{"input":"*** Begin"}', "*** Begin", '{"other":1}'])
def test_calls_of_freeform_tools_are_told_as_text(arguments):
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    function = {"name": "apply_patch", "arguments": ""}
    call = {"index": 0, "id": "c1", "type": "function", "function": function}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": None},
        {"tool_calls": [call]},
        *({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in arguments),
    ]
    choices: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    choices.append({"index": 0, "delta": {}, "finish_reason": "tool_calls"})
    events = [SseEvent(None, dump({**chunk, "choices": [choice]})) for choice in choices]
    heard = told([*events, SseEvent(None, "[DONE]")], "openai_chat", "openai_responses", ("apply_patch",))
    (said,) = heard["output"]
    assert (said["type"], said["call_id"]) == ("custom_tool_call", "c1")
    assert said["input"] == ("*** Begin" if "Begin" in arguments else arguments)
