"""Errors as the official SDKs raise them: whose doing they are, and that nobody tries again what cannot help."""

import asyncio
import socket
from typing import Any

import anthropic
import openai
import pytest

from seatrial.gateway.upstreams.failures import DOUBTFUL_STATUSES
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Fail, Hang, Raw, Step
from tests.gateway.gateways import HELLO, Gateway, gateway_to, open_gateway
from tests.gateway.upstream_calls import Naps


async def chat(gateway: Gateway, **more: Any) -> Any:
    async with gateway.async_openai(max_retries=3) as client:
        return await client.chat.completions.create(model="m", messages=HELLO, **more)


async def claude(gateway: Gateway, **more: Any) -> Any:
    async with gateway.async_anthropic(max_retries=3) as client:
        return await client.messages.create(model="m", max_tokens=9, messages=HELLO, **more)


OPENAI: dict[int, type[Exception]] = {
    400: openai.BadRequestError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    422: openai.UnprocessableEntityError,
}
ANTHROPIC: dict[int, type[Exception]] = {
    400: anthropic.BadRequestError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    413: anthropic.RequestTooLargeError,
}


@pytest.mark.parametrize("translated", [True, False])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("status", OPENAI)
def test_a_bad_request_is_the_agents_own(tmp_path, status, stream, translated):
    async def scenario() -> None:
        speaks: DialectName = "anthropic" if translated else "openai_chat"
        async with gateway_to(tmp_path, Fail(status, "told so"), speaks=speaks) as (gateway, fake):
            with pytest.raises(OPENAI[status], match="told so"):
                await chat(gateway, stream=stream)
        assert len(fake.received) == (2 if status in DOUBTFUL_STATUSES else 1)
        assert gateway.session.failure is None
        (kept,) = gateway.calls
        assert kept.error is not None
        assert (kept.error.kind, kept.error.status, kept.error.message) == ("agent", status, "told so")

    asyncio.run(scenario())


@pytest.mark.parametrize("translated", [True, False])
@pytest.mark.parametrize("status", ANTHROPIC)
def test_a_bad_request_to_messages_is_too(tmp_path, status, translated):
    async def scenario() -> None:
        speaks: DialectName = "openai_chat" if translated else "anthropic"
        async with gateway_to(tmp_path, Fail(status, "told so"), speaks=speaks) as (gateway, _):
            with pytest.raises(ANTHROPIC[status], match="told so"):
                await claude(gateway)
        assert gateway.session.failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("step", "for_openai", "for_anthropic"),
    [
        (Fail(502), openai.InternalServerError, anthropic.InternalServerError),
        (Fail(529), openai.InternalServerError, anthropic.OverloadedError),
        (Fail(429), openai.RateLimitError, anthropic.RateLimitError),
        (Fail(401), openai.AuthenticationError, anthropic.AuthenticationError),
        (Raw(b"<html>", status=200), openai.InternalServerError, anthropic.InternalServerError),
        (Raw(b"[1]", status=200), openai.InternalServerError, anthropic.InternalServerError),
        (Raw(b"", status=302, headers={"location": "/"}), openai.InternalServerError, anthropic.InternalServerError),
    ],
    ids=["502", "529", "429", "401", "HTML", "no object", "redirect"],
)
@pytest.mark.parametrize("speaks", ["openai_chat", "anthropic"])
def test_a_failing_provider_is_no_fault_of_the_agents(
    tmp_path, speaks, step: Step, for_openai: type[Exception], for_anthropic: type[Exception]
):
    async def scenario() -> None:
        async with gateway_to(tmp_path, step, step, speaks=speaks) as (gateway, fake):
            with pytest.raises(for_openai):
                await chat(gateway)
            assert gateway.session.broken.is_set()
            with pytest.raises(for_anthropic):
                await claude(gateway)
        # Neither the SDKs nor we have tried again.
        assert len(fake.received) == 2
        assert [call.error and call.error.kind for call in gateway.calls] == ["provider"] * 2
        assert gateway.session.failure is not None

    asyncio.run(scenario())


def test_a_storm_of_refusals_is_waited_out_and_the_agent_notices_nothing(tmp_path):
    naps = Naps()
    storm = [Fail(429, headers={"retry-after": "7"})] * 4 + [Fail(529), Fail(503)]

    async def scenario() -> None:
        async with gateway_to(tmp_path, *storm, upstream={"retries": 6, "naps": naps}) as (gateway, fake):
            assert (await chat(gateway)).choices[0].message.content == "ok"
        assert len(fake.received) == 7
        assert naps[:4] == [7.0] * 4
        assert [call.error for call in gateway.calls] == [None]

    asyncio.run(scenario())


def test_a_storm_over_many_agents_ends_none_of_their_trials(tmp_path):
    async def scenario() -> None:
        storm = [Fail(429)] * 100
        async with gateway_to(tmp_path, *storm, upstream={"retries": 100}) as (gateway, _):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(chat(gateway)) for _ in range(20)]
            assert {task.result().choices[0].message.content for task in asked} == {"ok"}
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_a_provider_that_never_answers_is_given_up(tmp_path):
    async def scenario() -> None:
        limits = {"first_byte_timeout_sec": 0.05}
        async with gateway_to(tmp_path, Hang(), upstream=limits) as (gateway, _):
            with pytest.raises(openai.InternalServerError, match="did not begin to answer within"):
                await chat(gateway)
        assert gateway.session.failure is not None

    asyncio.run(scenario())


def test_a_script_that_runs_out_ends_the_trial_for_good(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel([]), tmp_path) as gateway:
            with pytest.raises(openai.InternalServerError, match="ran out"):
                await chat(gateway)
        assert gateway.session.failure is not None
        assert not gateway.session.failure.retryable

    asyncio.run(scenario())


def test_a_provider_that_is_not_there(tmp_path):
    async def scenario() -> None:
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # the port is taken, and nobody listens there
            url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
            async with gateway_to(tmp_path, upstream={"base_url": url}) as (gateway, _):
                with pytest.raises(anthropic.InternalServerError, match="cannot be reached"):
                    await claude(gateway)
        assert gateway.session.failure is not None

    asyncio.run(scenario())
