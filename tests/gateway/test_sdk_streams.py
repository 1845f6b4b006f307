"""Streams as the official SDKs see them: what has come is here at once, and what breaks is an error."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import anthropic
import openai
import pytest

from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Cut, Hang, Say
from tests.gateway.gateways import HELLO, Gateway, gateway_to
from tests.gateway.upstream_calls import DIALECTS

WITH_SDK: list[DialectName] = ["openai_chat", "openai_responses", "anthropic"]


async def texts(gateway: Gateway, dialect: DialectName) -> AsyncGenerator[str, None]:
    """The pieces of text of a streamed answer, as the SDK of a dialect yields them."""
    async with gateway.async_openai() as client, gateway.async_anthropic() as claude:
        stream: Any
        if dialect == "anthropic":
            stream = await claude.messages.create(model="m", max_tokens=99, messages=HELLO, stream=True)
        elif dialect == "openai_responses":
            stream = await client.responses.create(model="m", input="hello", stream=True)
        else:
            stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True)
        async for event in stream:
            if text := _text(event):
                yield text


def _text(event: Any) -> str | None:
    if hasattr(event, "choices"):
        return event.choices[0].delta.content if event.choices else None
    if event.type == "content_block_delta":
        return str(event.delta.text)
    return str(event.delta) if event.type == "response.output_text.delta" else None


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("dialect", WITH_SDK)
def test_the_first_piece_is_here_while_the_provider_holds_back_the_rest(tmp_path, dialect, upstream):
    async def scenario() -> None:
        async with asyncio.timeout(30), gateway_to(tmp_path, Hang(after=6), speaks=upstream) as (gateway, fake):
            pieces = texts(gateway, dialect)
            assert "an answer".startswith((await anext(pieces))[:5])
            assert fake.in_flight == 1
            assert gateway.calls == []
            await pieces.aclose()

    asyncio.run(scenario())


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("dialect", WITH_SDK)
def test_a_stream_cut_in_the_middle_is_an_error_and_ends_the_trial(tmp_path, dialect, upstream):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Cut(after=2 if upstream == "google" else 6), speaks=upstream) as (gateway, _):
            pieces = texts(gateway, dialect)
            got = await anext(pieces)
            with pytest.raises((openai.APIError, anthropic.APIError)):
                [piece async for piece in pieces]
            assert gateway.session.broken.is_set()
        (kept,) = gateway.calls
        assert kept.error is not None
        assert (kept.error.kind, kept.status) == ("provider", 200)
        assert kept.response
        assert got[:5] in str(kept.response)

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", WITH_SDK)
@pytest.mark.parametrize("upstream", ["openai_chat", "anthropic"])
def test_whoever_leaves_in_the_middle_is_noted_and_the_provider_is_let_go(tmp_path, dialect, upstream):
    """The provider takes one request at a time, so the second one is answered only if the first one was given up."""
    one = {"max_concurrent": 1}

    async def scenario() -> None:
        script = (Hang(after=6), Say("next"))
        async with asyncio.timeout(30), gateway_to(tmp_path, *script, speaks=upstream, upstream=one) as (gateway, _):
            pieces = texts(gateway, dialect)
            await anext(pieces)
            await pieces.aclose()
            assert "".join([piece async for piece in texts(gateway, dialect)]) == "next"
        assert [call.error and call.error.kind for call in gateway.calls] == ["disconnected", None]
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_whoever_leaves_before_the_answer_begins_is_noted_too(tmp_path):
    async def scenario() -> None:
        async with asyncio.timeout(30), gateway_to(tmp_path, Say(late=True)) as (gateway, fake):
            async with gateway.async_openai() as client, asyncio.TaskGroup() as group:
                asking = group.create_task(client.chat.completions.create(model="m", messages=HELLO))
                await fake.arrived(1)
                asking.cancel()
            fake.release()
            while not gateway.calls:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            (error,) = [call.error for call in gateway.calls]
            assert error is not None
            assert (error.kind, error.ended_by) == ("disconnected", "agent")

    asyncio.run(scenario())
