"""Peers that misbehave: bodies of any size both ways, broken JSON, silence in the middle, an endless answer."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import orjson
import pytest

from seatrial.gateway.base import Limits
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Big, Hang, Raw, Say
from tests.gateway.gateways import Gateway, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import PATHS, call, provider

LARGE = 50 * 2**20


@contextmanager
def at_most(megabytes: int) -> Iterator[None]:
    """Fails when more memory than that is added at any time. Memory that is only reserved does not count."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark so far is forgotten
    before = _status("VmRSS")
    yield
    added = (_status("VmHWM") - before) / 2**10
    assert added < megabytes, f"{added:.0f} MB"


def _status(name: str) -> int:
    """A field of this process's status, in KB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


async def drained(gateway: Gateway, body: bytes | AsyncIterator[bytes], path: str) -> tuple[int, int]:
    """Status and size of an answer, of which nothing is kept."""
    async with gateway.plain() as client, client.post(path, data=body) as response:
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
        return response.status, size


@pytest.mark.whole
def test_a_large_request_arrives_whole(tmp_path):
    async def body() -> AsyncIterator[bytes]:
        yield b'{"model":"m","messages":[{"role":"user","content":"'
        for _ in range(LARGE // 2**16):
            yield b"x" * 2**16
        yield b'"}]}'

    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            # The body, its text, the copy that the fake keeps, and what is written down.
            with at_most(400):
                status, _ = await drained(gateway, body(), PATHS["openai_chat"])
            assert (status, len(fake.received[0].body)) == (200, LARGE + 55)
            fake.received.clear()
            with at_most(20):
                await post(gateway, PATHS["openai_chat"], call().body)
        assert len(gateway.calls[0].messages[0]["content"]) == LARGE

    asyncio.run(scenario())


@pytest.mark.whole
def test_a_large_answer_arrives_whole(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Big(LARGE)) as (gateway, _):
            with at_most(300):
                status, size = await drained(gateway, call().body, PATHS["openai_chat"])
            assert (status, size) == (200, LARGE + 54)
        assert gateway.calls[0].response is not None

    asyncio.run(scenario())


@pytest.mark.whole
def test_large_answers_on_other_paths_are_passed_by_in_pieces(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Big(LARGE)) as (gateway, _):
            with at_most(40):
                assert await drained(gateway, b"{}", "/v1/messages/count_tokens") == (200, LARGE + 54)

    asyncio.run(scenario())


def test_an_answer_that_is_too_large_is_the_agents_affair(tmp_path):
    """It says how much it wants to be told. As a failure of the provider its trial would not be counted."""

    async def scenario() -> None:
        async with (
            provider(Big(LARGE), Say("small"), retries=0) as (upstream, _),
            open_gateway(upstream, tmp_path, limits=Limits(answer_bytes=2**20)) as gateway,
        ):
            status, _ = await drained(gateway, call().body, PATHS["openai_chat"])
            assert status == 413
            assert (await drained(gateway, call().body, PATHS["openai_chat"]))[0] == 200
        assert gateway.session.failure is None
        assert gateway.session.bodies.answers == 0
        assert "larger than 1,048,576 bytes" in str(gateway.calls[0].error)

    asyncio.run(scenario())


GARBAGE = [
    b"data: {not json\n\ndata: [DONE]\n\n",
    b"data: [1, 2]\n\ndata: null\n\n",
    b"<html>504</html>",
    b"\x00\xff\xfe" * 100,
    b"data: " + b'{"a":' * 2000 + b"\n\n",
    b'data: {"choices": "no list", "usage": []}\n\n',
    b'data: {"choices": [{"index": {}, "delta": 7}]}\n\nevent: message_stop\ndata: {"type": 5}\n\n',
    b"",
]


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("dialect", PATHS)
@pytest.mark.parametrize("speaks", ["openai_chat", "anthropic"])
def test_garbage_for_a_stream_is_the_providers_failure(tmp_path, dialect: DialectName, speaks, garbage):
    events = {"content-type": "text/event-stream"}

    async def scenario() -> None:
        async with gateway_to(tmp_path, Raw(garbage, headers=events), speaks=speaks) as (gateway, _):
            request = (
                call(dialect, stream=True, max_tokens=None)
                if dialect == "openai_responses"
                else call(dialect, stream=True)
            )
            status, body = await post(gateway, request.path, orjson.dumps(_without_nones(request.payload or {})))
            assert status in (200, 502)
            assert b"error" in body or garbage.startswith(b"data: {not")
        (kept,) = gateway.calls
        if b"[DONE]" not in garbage or speaks == "anthropic":
            assert kept.error is not None
            assert kept.error.kind == "provider"
            assert gateway.session.failure is not None

    asyncio.run(scenario())


def _without_nones(payload: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in payload.items() if value is not None}


def test_silence_in_the_middle_of_a_stream_is_given_up(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Hang(after=4), upstream={"idle_timeout_sec": 0.05}) as (gateway, _):
            status, body = await post(gateway, PATHS["openai_chat"], call(stream=True).body)
            assert status == 200
            assert b"nothing more came" in body
        assert gateway.session.failure is not None
        assert gateway.calls[0].response is not None

    asyncio.run(scenario())


def test_whoever_sends_half_a_request_and_leaves_disturbs_nobody(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["said"]), tmp_path) as gateway:
            for sent in (b"", b"GARBAGE\r\n\r\n", b"POST /v1/messages HTTP/1.1\r\n", _half_a_request(gateway)):
                _, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
                writer.write(sent)
                await writer.drain()
                writer.transport.abort()
            assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == 200
        assert len(gateway.calls) == 1
        assert gateway.session.failure is None

    asyncio.run(scenario())


def _half_a_request(gateway: Gateway) -> bytes:
    head = f"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {gateway.session.key}\r\ncontent-length: 1000\r\n\r\n"
    return head.encode() + b'{"model":'


def test_a_slow_reader_does_not_make_the_gateway_swallow_the_stream(tmp_path):
    """An agent that does not read holds its provider back, instead of filling our memory."""

    async def scenario() -> None:
        async with (
            gateway_to(tmp_path, Big(LARGE)) as (gateway, fake),
            aiohttp.ClientSession(gateway.url, headers=gateway.auth, read_bufsize=2**14) as client,
        ):
            with at_most(40):
                async with client.get("/v1/models") as response:
                    await response.content.readexactly(100)
                    assert fake.in_flight == 1
        assert gateway.session.failure is None

    asyncio.run(scenario())
