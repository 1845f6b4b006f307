"""Rendered answers and streams, read by the official SDKs: what they make of both must be what was said."""

import asyncio
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from seatrial.gateway.base import SseReader
from seatrial.gateway.dialects import DIALECTS as MODULES
from seatrial.gateway.dialects import usage_of
from seatrial.gateway.upstreams.replies import Reply, ReplyCall, parse_reply, render_response, render_stream
from seatrial.model.trace import DialectName, TokenUsage
from seatrial.testing.fake_provider import FakeProvider, Say
from tests.gateway.google_answers import GoogleAnswer
from tests.gateway.upstream_calls import DIALECTS

TEXT = "Some text, long enough to come in pieces: äöü 🙂 “quotes”\n\ndata: not an event"
CALLS = (ReplyCall("run", '{"command": "ls -la /a/rather/long/path"}'), ReplyCall("stop", "{}", "own-id"))
USAGE = TokenUsage(input_tokens=100, cached_tokens=40, output_tokens=20, reasoning_tokens=5)
REPLIES = {
    "text": Reply(TEXT, usage=USAGE),
    "tools": Reply("", CALLS, usage=USAGE),
    "both": Reply(TEXT, CALLS, "thinking about it", USAGE),
    "nothing": Reply(usage=USAGE),
}
TYPES: dict[DialectName, Any] = {
    "openai_chat": ChatCompletion,
    "openai_responses": Response,
    "anthropic": Message,
    "google": GoogleAnswer,
}


def assembled(dialect: DialectName, chunks: list[bytes]) -> dict[str, Any]:
    reader, assembler = SseReader(), MODULES[dialect].assembler()
    for chunk in chunks:
        for event in reader.feed(chunk):
            assembler.feed(event)
    assert assembler.finished
    response = assembler.response()
    assert response is not None
    return response


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_whole_answer_is_one_of_the_sdks_types(dialect: DialectName, reply: Reply):
    response = render_response(dialect, reply, model="m", serial=3)
    TYPES[dialect].model_validate(response, strict=False)
    assert usage_of(dialect, response) == USAGE.model_copy(update={"reasoning_tokens": 5})


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_amounts_to_the_whole_answer(dialect: DialectName, reply: Reply):
    response = render_response(dialect, reply, model="m", serial=3)
    stream = list(render_stream(dialect, response))
    together = TYPES[dialect].model_validate(assembled(dialect, stream))
    assert without_empty(together.model_dump()) == without_empty(TYPES[dialect].model_validate(response).model_dump())
    assert stream == list(render_stream(dialect, response))


def without_empty(value: Any) -> Any:
    """Absent, null and empty are the same to a reader of streams."""
    if isinstance(value, dict):
        return {key: kept for key, item in value.items() if (kept := without_empty(item)) not in (None, [], "", {})}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


def test_unknown_fields_survive_streaming():
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "hi", "token_ids": [1, 2], "reasoning_content": "hm"},
        "logprobs": {"content": [{"token": "hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]},
        "finish_reason": "stop",
        "stop_reason": 7,
    }
    response = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": None}
    together = assembled("openai_chat", list(render_stream("openai_chat", response)))["choices"][0]
    assert together["message"] == choice["message"]
    assert together["logprobs"] == choice["logprobs"]
    assert together["stop_reason"] == 7


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_no_answer_cannot_be_streamed(dialect: DialectName):
    for value in ({}, {"choices": [1]}, {"content": [1], "usage": {}}, {"output": ["x"]}):
        with pytest.raises(ValueError, match=dialect):
            render_stream(dialect, value)


def test_the_openai_sdk_reads_chat_streams():
    async def run(url: str):
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client:
            messages: list[Any] = [{"role": "user", "content": "hi"}]
            async with client.chat.completions.stream(
                model="m", messages=messages, stream_options={"include_usage": True}
            ) as stream:
                final = await stream.get_final_completion()
        message = final.choices[0].message
        assert message.content == TEXT
        assert [call.function.arguments for call in message.tool_calls or []] == [call.arguments for call in CALLS]
        assert final.usage is not None
        assert final.usage.prompt_tokens == 100

    served(run)


def test_the_openai_sdk_reads_responses_streams():
    async def run(url: str):
        async with (
            openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k") as client,
            client.responses.stream(model="m", input="hi") as stream,
        ):
            seen = [event.type async for event in stream]
            final = await stream.get_final_response()
        assert final.output_text == TEXT
        assert [item.arguments for item in final.output if item.type == "function_call"] == [c.arguments for c in CALLS]
        assert seen.count("response.output_text.delta") > 2

    served(run)


def test_the_anthropic_sdk_reads_streams():
    async def run(url: str):
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k") as client:
            messages: list[Any] = [{"role": "user", "content": "hi"}]
            async with client.messages.stream(model="m", max_tokens=9, messages=messages) as stream:
                final = await stream.get_final_message()
        assert [block.text for block in final.content if block.type == "text"] == [TEXT]
        uses = [block.input for block in final.content if block.type == "tool_use"]
        assert uses == [{"command": "ls -la /a/rather/long/path"}, {}]
        assert final.stop_reason == "tool_use"
        assert (final.usage.input_tokens, final.usage.cache_read_input_tokens) == (60, 40)

    served(run)


def served(client) -> None:
    async def run():
        async with FakeProvider(Say(REPLIES["both"])) as fake:
            await client(fake.base_url)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (3, "a reply is text or a table"),
        ({}, "a reply is text or a table"),
        ({"txt": "x"}, "'txt'"),
        ({"text": 3}, "text is text"),
        ({"tool_calls": {"name": "x"}}, "is a list"),
        ({"tool_calls": [{"arguments": {}}]}, "with a name"),
        ({"tool_calls": [{"name": "x", "args": {}}]}, "'args'"),
        ({"text": "x", "usage": {"input": 3}}, "input_tokens"),
    ],
)
def test_replies_that_make_no_sense(value: object, complaint: str):
    with pytest.raises(ValueError, match=complaint):
        parse_reply(value)


@pytest.mark.parametrize("arguments", ["not JSON", "[1]", '{"n": 1e999}'])
def test_arguments_that_are_no_object_are_told_apart_in_anthropics_words(arguments: str):
    response = render_response("anthropic", Reply(tool_calls=(ReplyCall("run", arguments),)))
    assert response["content"][0]["input"] == {"malformed": arguments}


def test_empty_text_is_no_block_but_an_empty_message():
    assert render_response("anthropic", Reply())["content"] == []
    assert render_response("openai_chat", Reply())["choices"][0]["message"]["content"] == ""


def test_thoughts_of_a_response_are_streamed_in_pieces():
    stream = b"".join(render_stream("openai_responses", Reply("hi", reasoning="a thought of some length")))
    assert stream.count(b"event: response.reasoning_text.delta") == 2
