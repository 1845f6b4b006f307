"""Streams through the gateway, however the network cuts them: the count of tokens is kept, and shown if asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import PATHS
from seatrial.gateway.limits import Limits
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


class Endless(Pieces):
    """Goes on for ever, in events or in a single line."""

    def __init__(self, piece: bytes) -> None:
        super().__init__([])
        self._piece = piece
        self.sent = 0

    @asynccontextmanager
    async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
        async def chunks() -> AsyncIterator[bytes]:
            yield b'data: {"choices":[{"index":0,"delta":{"content":"'
            while True:
                self.sent += len(self._piece)
                yield self._piece

        yield ModelReply(200, {"content-type": "text/event-stream"}, chunks())


AN_EVENT = b'"}}]}\n\ndata: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 999


@pytest.mark.parametrize("piece", [AN_EVENT, b"x" * 999], ids=["events", "a line"])
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_a_stream_without_an_end_is_ended_with_an_error_and_is_the_agents_own_affair(tmp_path, piece, dialect):
    async def scenario() -> None:
        upstream = Endless(piece)
        async with open_gateway(upstream, tmp_path, limits=Limits(spool=tmp_path, answer_bytes=2**20)) as gateway:
            asked = call(dialect, stream=True)
            status, said = await post(gateway, asked.path, asked.body)
            assert (status, b"answers under way are larger than 1,048,576 bytes" in said[-400:]) == (200, True)
            assert 2**20 - 2**15 < upstream.sent < 2**20 + 2**17
            assert (gateway.session.failure, gateway.session.bodies.answers) == (None, 0)
            (kept,) = gateway.calls
            assert (kept.error and kept.error.kind, kept.status) == ("agent", 200)
            assert (tmp_path / "calls.jsonl").stat().st_size < 2**21

    asyncio.run(asyncio.wait_for(scenario(), 60))
