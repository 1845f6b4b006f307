"""Streams through the gateway, however the network cuts them: the count of tokens is kept, and shown if asked for."""

import asyncio
from typing import Any

import pytest

from seatrial.gateway.dialects import PATHS
from tests.gateway.gateways import Pieces, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import call

_HEAD = '"id":"1","object":"chat.completion.chunk","created":0,"model":"m"'
_CHUNKS = (
    ": a comment",
    f'data: {{{_HEAD},"choices":[{{"index":0,"delta":{{"content":"h\u00e9"}},"finish_reason":null}}]}}',
    f'data: {{{_HEAD},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}',
    f'data: {{{_HEAD},"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":2}}}}',
    "data: [DONE]",
)
STREAM = "".join(f"{chunk}\n\n" for chunk in _CHUNKS)


def cuts() -> list[list[bytes]]:
    """The stream in one piece, in lines, byte by byte, and cut in two at every place around the count of tokens."""
    whole = STREAM.encode()
    start, end = whole.index(_CHUNKS[3].encode()), len(whole)
    halves = [[whole[:place], whole[place:]] for place in range(start - 3, end, 7)]
    return [[whole], whole.splitlines(keepends=True), [bytes([each]) for each in whole], *halves]


@pytest.mark.parametrize("pieces", cuts())
def test_the_count_of_tokens_is_kept_and_only_shown_if_asked_for(tmp_path, pieces):
    asked: dict[str, Any] = {"stream_options": {"include_usage": True}}

    async def scenario() -> None:
        async with open_gateway(Pieces(pieces), tmp_path) as gateway:
            answers = [
                await post(gateway, PATHS["openai_chat"], call(stream=True, **more).body) for more in (asked, {})
            ]
        shown, hidden = (body.decode() for _, body in answers)
        assert shown == STREAM
        wanted = [line for line in STREAM.splitlines() if line.startswith("data") and "usage" not in line]
        assert [line for line in hidden.splitlines() if line.startswith("data")] == wanted
        assert hidden.count("\n\n") >= len(wanted)
        assert [each.usage and each.usage.input_tokens for each in gateway.calls] == [3, 3]

    asyncio.run(scenario())


def test_a_last_event_without_its_blank_line_is_passed_on_too(tmp_path):
    async def scenario() -> None:
        async with open_gateway(Pieces([STREAM.rstrip().encode()]), tmp_path) as gateway:
            _, body = await post(gateway, PATHS["openai_chat"], call(stream=True).body)
            _, translated = await post(gateway, PATHS["anthropic"], call("anthropic", stream=True).body)
        assert body.endswith(b"data: [DONE]\n\n")
        assert b"message_stop" in translated
        assert [each.error for each in gateway.calls] == [None, None]

    asyncio.run(scenario())


@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("asked", [True, False])
def test_the_count_is_hidden_in_translated_streams_too(tmp_path, upstream, asked):
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}

    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks=upstream) as (gateway, _):
            _, body = await post(gateway, PATHS["openai_chat"], call(stream=True, **options).body)
        assert (b'"prompt_tokens"' in body) == asked
        assert gateway.calls[0].usage is not None

    asyncio.run(scenario())
