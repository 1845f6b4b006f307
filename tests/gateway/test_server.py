"""The gateway's server: what it refuses at the door, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from yarl import URL

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import PATHS
from seatrial.gateway.limits import Limits
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import Dialect
from seatrial.testing.fake_provider import Hang, Say
from tests.gateway.gateways import Gateway, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import DIALECTS, call, provider


def error_type(dialect: Dialect, body: bytes) -> str:
    value = orjson.loads(body)
    assert (value.get("type") == "error") == (dialect == "anthropic")
    return str(value["error"]["status" if dialect == "google" else "type"])


REFUSALS = {
    "google": ("INVALID_ARGUMENT", "UNAUTHENTICATED"),
    "anthropic": ("invalid_request_error", "authentication_error"),
}
"""What a bad request and a wrong key are called; the others have one word for both."""


def refusals(dialect: Dialect) -> tuple[str, str]:
    return REFUSALS.get(dialect, ("invalid_request_error", "invalid_request_error"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'"text"', b'{"model":NaN}', b"{}"])
def test_what_is_no_request_is_refused_in_the_dialects_own_words(tmp_path, dialect, body):
    async def scenario() -> None:
        model = ScriptedModel(["unsaid"])
        async with open_gateway(model, tmp_path) as gateway:
            status, said = await post(gateway, call(dialect).path, body)
        assert (status, error_type(dialect, said), model.remaining) == (400, refusals(dialect)[0], 1)
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_a_request_that_is_too_large_is_refused(tmp_path):
    async def in_pieces() -> Any:
        for _ in range(20):
            yield b"x" * 100

    async def scenario() -> None:
        model = ScriptedModel(["unsaid"])
        limits = Limits(body_bytes=1000)
        async with open_gateway(model, tmp_path, limits=limits) as gateway, gateway.plain() as client:
            for body in (b"x" * 1001, in_pieces()):
                async with client.post(PATHS["anthropic"], data=body) as response:
                    assert response.status == 413
                    assert error_type("anthropic", await response.read()) == "request_too_large"
        assert model.remaining == 1
        assert [each.error and each.error.status for each in gateway.calls] == [413, 413]

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_key_nothing_is_read(tmp_path, dialect):
    async def scenario() -> None:
        model = ScriptedModel(["unsaid"])
        async with open_gateway(model, tmp_path) as gateway:
            status, said = await post(gateway, call(dialect).path, call(dialect).body, authorization="Bearer nobody")
        assert (status, error_type(dialect, said), model.remaining) == (401, refusals(dialect)[1], 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_either_way_of_showing_the_key_opens(tmp_path, header):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["said"]), tmp_path) as gateway:
            shown = {"authorization": "", header: gateway.session.key}
            status, _ = await post(gateway, PATHS["openai_chat"], call().body, **shown)
        assert status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/chat/completions?", "/chat/completions?beta=true"])
def test_no_way_of_writing_a_path_leads_past_the_limits(tmp_path, path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=1) as (gateway, fake), gateway.plain() as client:
            url = URL(f"{gateway.url}{path}", encoded=True)
            for status in (200, 429):
                async with client.post(url, data=call().body) as response:
                    assert response.status == status
        assert (len(fake.received), len(gateway.calls)) == (1, 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_closed_in_the_middle_it_breaks_calls_off_and_writes_them_down(tmp_path, stream):
    """Whoever looks at calls.jsonl after the block sees every call, and nothing is left to hang."""

    async def ask(gateway: Gateway) -> None:
        with pytest.raises(aiohttp.ClientError):
            await post(gateway, PATHS["openai_chat"], call(stream=stream).body)

    async def scenario() -> None:
        script = [Hang(after=2) if stream else Hang()] * 3
        async with asyncio.timeout(20), provider(*script, retries=0) as (upstream, fake), asyncio.TaskGroup() as group:
            async with open_gateway(upstream, tmp_path) as gateway:
                for _ in script:
                    group.create_task(ask(gateway))
                await fake.arrived(3)
            assert [each.error and each.error.kind for each in gateway.calls] == ["disconnected"] * 3

    asyncio.run(scenario())


def test_calls_that_take_their_time_to_break_off_are_waited_for(tmp_path):
    class Slow(ScriptedModel):
        asked = asyncio.Event()
        cleaned_up = False

        @asynccontextmanager
        async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
            self.asked.set()
            try:
                await asyncio.Event().wait()
                raise AssertionError("nobody waits for so long")
                yield
            finally:
                for _ in range(100):
                    await asyncio.sleep(0)
                self.cleaned_up = True

    async def ask(gateway: Gateway) -> None:
        with pytest.raises(aiohttp.ClientError):
            await post(gateway, PATHS["openai_chat"], call().body)

    async def scenario() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            model = Slow([])
            async with open_gateway(model, tmp_path) as gateway:
                group.create_task(ask(gateway))
                await model.asked.wait()
            assert model.cleaned_up
            assert [each.error and each.error.kind for each in gateway.calls] == ["disconnected"]

    asyncio.run(scenario())


def test_a_connection_that_is_kept_open_does_not_keep_the_gateway_open(tmp_path):
    async def scenario() -> None:
        async with asyncio.timeout(20):
            async with gateway_to(tmp_path, Say("one")) as (gateway, _):
                client = aiohttp.ClientSession(gateway.url, headers=gateway.auth)
                async with client.post(PATHS["openai_chat"], data=call().body) as response:
                    await response.read()
            await client.close()

    asyncio.run(scenario())


def test_the_port_is_free_again_afterwards(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel([]), tmp_path) as gateway:
            port = int(gateway.url.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(scenario())
