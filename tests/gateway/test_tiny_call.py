"""One tiny call: what a provider says to it, and whether that stands in the way of a job."""

import asyncio
import socket

import pytest

from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.gateway.upstreams.tiny_call import Tried, try_upstream
from seatrial.testing.fake_provider import Fail, FakeProvider, Raw, Say, Step


def tried(step: Step, model: str | None = "m", **options) -> tuple[Tried | None, FakeProvider]:
    async def scenario() -> tuple[Tried | None, FakeProvider]:
        async with FakeProvider(otherwise=step) as provider:
            settings = ProviderOptions(base_url=provider.base_url, retries=0, **options)
            async with HttpProvider(settings) as upstream:
                found = await try_upstream(upstream, model)
            return found, provider

    return asyncio.run(scenario())


def test_an_answer_costs_one_token():
    found, provider = tried(Say("Hi"))
    assert found == Tried("answers")
    (received,) = provider.received
    assert (received.payload["model"], received.payload["max_tokens"]) == ("m", 1)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "google"])
def test_in_every_dialect(dialect):
    found, provider = tried(Say("Hi"), dialects=frozenset({dialect}))
    assert found == Tried("answers")
    assert len(provider.received) == 1


@pytest.mark.parametrize(
    ("status", "message", "verdict"),
    [
        (401, "wrong key", "refuses"),
        (403, "not for you", "refuses"),
        (404, "no such model", "refuses"),
        (400, "The model `m` does not exist", "refuses"),
        (400, "Unsupported parameter: max_tokens", "unclear"),
        (429, "slow down", "unclear"),
        (503, "busy", "unclear"),
    ],
)
def test_what_a_refusal_means(status, message, verdict):
    found, _ = tried(Fail(status, message))
    assert found is not None
    assert found.verdict == verdict
    assert message in found.said


@pytest.mark.parametrize(("status", "verdict"), [(401, "refuses"), (404, "unclear")])
def test_without_a_model_the_list_of_models_is_asked_for(status, verdict):
    found, provider = tried(Fail(status), model=None)
    assert found is not None
    assert (found.verdict, provider.received[0].path) == (verdict, "/v1/models")


def test_a_wrong_key_at_google_is_no_mistake_of_the_request():
    body = b'{"error": {"code": 400, "message": "not valid", "details": [{"reason": "API_KEY_INVALID"}]}}'
    found, _ = tried(Raw(body, 400), dialects=frozenset({"google"}))
    assert found is not None
    assert (found.verdict, "not valid" in found.said) == ("refuses", True)


def test_nobody_there():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    async def scenario() -> Tried | None:
        async with HttpProvider(ProviderOptions(base_url=f"http://127.0.0.1:{port}/v1", retries=0)) as upstream:
            return await try_upstream(upstream, "m")

    found = asyncio.run(scenario())
    assert found is not None
    assert found.verdict == "refuses"
    assert "cannot be reached" in found.said


def test_a_script_is_not_asked():
    script = ScriptedModel(["one"])
    assert asyncio.run(try_upstream(script, "m")) is None
