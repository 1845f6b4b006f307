"""A trial's limits and sums, told by the errors that the official SDKs raise and by what is in the record."""

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.calls import CallLog
from seatrial.gateway.session import Session, SessionOptions
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.record import ModelUsage
from seatrial.testing.fake_provider import Fail, Say
from tests.gateway.gateways import HELLO, PRICES, Gateway, gateway_to, open_gateway

TEN_TOKENS: dict[str, Any] = {"text": "ok", "usage": {"input_tokens": 8, "cached_tokens": 3, "output_tokens": 2}}
AT_ONCE = {"x-should-retry": "true", "retry-after-ms": "1"}


def new_session(folder: Path, **options: Any) -> Session:
    """A session that nobody serves."""
    return Session(ScriptedModel([]), CallLog(folder), SessionOptions(**options), PRICES)


def ask(gateway: Gateway) -> str | None:
    """One question by chat completions; the SDK may repeat it as often as it likes to."""
    with gateway.openai(max_retries=5) as client:
        answer = client.chat.completions.create(model="m", messages=HELLO)
    return answer.choices[0].message.content


def claude(gateway: Gateway) -> str:
    with gateway.anthropic(max_retries=5) as client:
        answer = client.messages.create(model="m", max_tokens=9, messages=HELLO)
    return answer.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_turns": 2}, "limit of 2 model calls"),
        ({"max_tokens": 20}, "limit of 20 tokens"),
        ({"max_cost_usd": 0.000024}, "limit of 2.4e-05 USD"),
    ],
)
def test_beyond_a_limit_the_provider_seems_to_refuse(tmp_path, limit, reason):
    async def scenario() -> None:
        model = ScriptedModel([TEN_TOKENS] * 9)
        async with open_gateway(model, tmp_path, **limit) as gateway:
            for _ in range(2):
                assert await asyncio.to_thread(ask, gateway) == "ok"
            with pytest.raises(openai.RateLimitError, match=reason) as refused:
                await asyncio.to_thread(ask, gateway)
            assert refused.value.code == "insufficient_quota"
            with pytest.raises(anthropic.RateLimitError, match=reason):
                await asyncio.to_thread(claude, gateway)
        assert model.remaining == 7
        # A call each: no SDK has tried again by itself.
        assert [call.error and call.error.kind for call in gateway.calls] == [None, None, "budget", "budget"]
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_a_stream_beyond_the_limit_is_refused_before_it_begins(tmp_path):
    def stream(gateway: Gateway) -> list[Any]:
        with gateway.openai() as client:
            return list(client.chat.completions.create(model="m", messages=HELLO, stream=True))

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a", "b"]), tmp_path, max_turns=1) as gateway:
            assert await asyncio.to_thread(stream, gateway)
            with pytest.raises(openai.RateLimitError):
                await asyncio.to_thread(stream, gateway)

    asyncio.run(scenario())


def test_what_was_used_is_summed_up(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel([TEN_TOKENS] * 3), tmp_path) as gateway:
            await asyncio.to_thread(ask, gateway)
            await asyncio.to_thread(ask, gateway)
            await asyncio.to_thread(claude, gateway)
        used = gateway.session.usage
        assert used.cost_usd == pytest.approx(36e-6)
        counts = ModelUsage(calls=3, input_tokens=24, cached_tokens=9, output_tokens=6, cost_usd=used.cost_usd)
        assert used == counts
        assert [call.cost_usd for call in gateway.calls] == [pytest.approx(12e-6)] * 3

    asyncio.run(scenario())


def test_a_sum_with_an_unknown_cost_is_unknown(tmp_path):
    def ask_another(gateway: Gateway) -> None:
        with gateway.openai() as client:
            client.chat.completions.create(model="nobody-knows-it", messages=HELLO)

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a", "b"]), tmp_path) as gateway:
            assert gateway.session.usage.cost_usd is None
            await asyncio.to_thread(ask, gateway)
            assert gateway.session.usage.cost_usd
            await asyncio.to_thread(ask_another, gateway)
            assert gateway.session.usage.cost_usd is None

    asyncio.run(scenario())


def test_what_an_sdk_repeats_by_itself_counts_once(tmp_path):
    async def scenario() -> None:
        script = (Fail(404, headers=AT_ONCE), Fail(404, headers=AT_ONCE), Say("at last"), Say("another"))
        async with gateway_to(tmp_path, *script, max_turns=2) as (gateway, _):
            assert await asyncio.to_thread(ask, gateway) == "at last"
            assert await asyncio.to_thread(ask, gateway) == "another"
            with pytest.raises(openai.RateLimitError):
                await asyncio.to_thread(ask, gateway)
        assert [call.retry_of for call in gateway.calls] == [None, 0, 1, None, None]
        assert gateway.session.usage.calls == 4

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "count", "turns"),
    [(b"same", "1", 1), (b"same", "0", 2), (b"same", "", 2), (b"other", "1", 2)],
    ids=["a repeat", "the same question anew", "no count", "a repeat of something else"],
)
def test_only_a_repeat_of_the_same_request_is_one(tmp_path, body, count, turns):
    session = new_session(tmp_path, max_turns=1)
    session.begin(ModelRequest("/v1/chat/completions", body=b"same"))
    assert session.refusal() is None
    headers = {"x-stainless-retry-count": count} if count else {}
    assert session.begin(ModelRequest("/v1/chat/completions", body=body, headers=headers))[1] == (None, 0)[turns == 1]
    assert (session.refusal() is None) == (turns == 1)


def test_the_key_of_one_trial_opens_nothing_of_another(tmp_path):
    def ask_with(gateway: Gateway, key: str) -> str:
        with gateway.openai() as client:
            answer = client.with_options(api_key=key).chat.completions.create(model="m", messages=HELLO)
        return str(answer.choices[0].message.content)

    def claude_with(gateway: Gateway, key: str) -> None:
        with gateway.anthropic() as client:
            client.with_options(api_key=key).messages.create(model="m", max_tokens=9, messages=HELLO)

    async def scenario(folders: list[Path]) -> None:
        one, other = ScriptedModel(["of one"]), ScriptedModel(["of the other"])
        async with open_gateway(one, folders[0]) as first, open_gateway(other, folders[1]) as second:
            assert first.session.key != second.session.key
            for gateway, key in [
                (first, second.session.key),
                (second, first.session.key),
                (first, "sk-x"),
                (first, "x" * 99),
            ]:
                with pytest.raises(openai.AuthenticationError):
                    await asyncio.to_thread(ask_with, gateway, key)
                with pytest.raises(anthropic.AuthenticationError):
                    await asyncio.to_thread(claude_with, gateway, key)
            assert await asyncio.to_thread(ask_with, second, second.session.key) == "of the other"
        assert (one.remaining, first.calls, len(second.calls)) == (1, [], 1)

    folders = [tmp_path / "one", tmp_path / "other"]
    for folder in folders:
        folder.mkdir()
    asyncio.run(scenario(folders))


def test_keys_cannot_be_guessed(tmp_path):
    keys = {new_session(tmp_path).key for _ in range(100)}
    assert len(keys) == 100
    assert all(len(key) >= 32 for key in keys)
