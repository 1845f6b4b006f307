"""Statuses that say nothing about whose fault they are: a plain question beside the odd one tells."""

import asyncio

import pytest

from seatrial.errors import ProviderError
from seatrial.gateway.upstreams.failures import DOUBTFUL_STATUSES, ProviderHealth, plain_question
from seatrial.testing.fake_provider import Fail, FakeProvider, Raw, Say
from tests.gateway.gateways import gateway_to, post
from tests.gateway.upstream_calls import DIALECTS, PATHS, Naps, ask, call, provider


class Stumbling(FakeProvider):
    """Fails at every request that has a word in it, and answers all others."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status

    async def _act(self, request, received, step):
        odd = b"odd" in received.body
        return await super()._act(request, received, Fail(self._status, "I stumbled") if odd else step)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", sorted(DOUBTFUL_STATUSES))
def test_a_provider_that_stumbles_over_one_request_only_is_not_broken(tmp_path, status, dialect):
    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks=dialect, upstream={"fake": Stumbling(status)}) as (gateway, fake):
            told, said = await post(gateway, call(dialect).path, call(dialect, user="odd").body)
            assert (told, b"I stumbled" in said) == (status, True)
            assert (await post(gateway, call(dialect).path, call(dialect).body))[0] == 200
            plain = sum(b"Reply with the word ok" in received.body for received in fake.received)
            assert (plain, gateway.session.failure, fake.in_flight) == (1, None, 0)
        assert [each.error and (each.error.kind, each.error.ended_by) for each in gateway.calls] == [
            ("agent", "provider"),
            None,
        ]

    asyncio.run(scenario())


@pytest.mark.parametrize("status", sorted(DOUBTFUL_STATUSES))
def test_one_that_fails_at_the_plain_question_too_is_broken(status):
    async def scenario() -> None:
        async with provider(*[Fail(status)] * 9, retries=1, max_concurrent=1) as (upstream, fake):
            with pytest.raises(ProviderError) as caught:
                await ask(upstream, call())
            assert (caught.value.status, caught.value.retryable) == (status, status != 403)
            seen = len(fake.received)
            assert seen == (2 if status == 403 else 3)
            fake.script.clear()
            assert (await ask(upstream, call())).status == 200  # the only slot is free again

    asyncio.run(scenario())


HTML = b"<html>404 Not Found (nginx)</html>"


@pytest.mark.parametrize(("status", "said"), [(404, HTML), (400, b""), (413, HTML), (404, b"404 page not found")])
def test_a_page_in_place_of_a_refusal_is_nobodys_until_the_model_is_asked(tmp_path, status, said):
    page = Raw(said, status, headers={"content-type": "text/html"})

    async def scenario() -> None:
        async with gateway_to(tmp_path, page, Say("ok"), page) as (gateway, fake):
            assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == status
            assert gateway.session.failure is None
            fake.script.extend([page] * 9)
            await post(gateway, PATHS["openai_chat"], call(model="another").body)
            assert f"answered {status}" in str(gateway.session.failure)

    asyncio.run(scenario())


def test_a_refusal_in_json_is_the_agents_at_once(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Fail(404, "no such model")) as (gateway, fake):
            assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == 404
            assert (len(fake.received), gateway.session.failure) == (1, None)

    asyncio.run(scenario())


def test_a_bad_spell_that_is_over_when_the_plain_question_is_asked_is_not_noticed():
    async def scenario() -> None:
        naps = Naps()
        async with provider(*[Fail(500)] * 3, Say("plain"), Say("at last"), retries=2, naps=naps) as (upstream, fake):
            assert b"at last" in (await ask(upstream, call())).body
            assert (len(fake.received), len(naps)) == (5, 2)

    asyncio.run(scenario())


def test_another_answer_meanwhile_is_opinion_enough():
    health = ProviderHealth()
    health.note_answer(call())
    assert health.answered_since(call(), 0.0)
    assert not health.answered_since(call(), float("inf"))
    assert not health.answered_since(call(model="another"), 0.0)


def test_any_number_of_names_is_remembered_in_little_room():
    health = ProviderHealth()
    for number in range(1000):
        health.note_answer(call(model=f"m{number}"))
    assert health.answered_since(call(model="m999"), 0.0)
    assert not health.answered_since(call(model="m0"), 0.0)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_plain_question_is_understood(dialect):
    async def scenario() -> None:
        async with provider(Say("ok")) as (upstream, _):
            answered = await ask(upstream, plain_question(dialect, "m"))
            assert (answered.status, b"ok" in answered.body) == (200, True)

    asyncio.run(scenario())
