"""How an agent's requests fared, counted: answered by a model, refused by us, and the last word it was told."""

import asyncio

import orjson

from seatrial.gateway.tally import CallTally
from seatrial.testing.fake_provider import Cut, Fail, Say
from tests.gateway.gateways import gateway_to, post

CHAT = "/v1/chat/completions"
GOOD = b'{"model":"m","messages":[{"role":"user","content":"hello"}]}'


def test_answers_and_refusals_are_counted_apart(tmp_path):
    async def scenario() -> None:
        script = (Say("yes"), Fail(404, "no such model"))
        async with gateway_to(tmp_path, *script, speaks="anthropic", max_turns=4, translation="strict") as (gateway, _):
            assert gateway.session.tally == CallTally()
            assert (await post(gateway, CHAT, GOOD))[0] == 200
            assert gateway.session.tally == CallTally(requests=1, answered=1)
            assert (await post(gateway, CHAT, GOOD))[0] == 404  # the provider's word, not ours
            assert gateway.session.tally == CallTally(requests=2, answered=1)
            status, said = await post(gateway, CHAT, orjson.dumps({**orjson.loads(GOOD), "logprobs": True}))
            assert (status, gateway.session.tally.refused_by_us) == (400, 1)
            assert gateway.session.tally.last_refusal in orjson.loads(said)["error"]["message"]
            assert (await post(gateway, "/v1/audio/speech", GOOD))[0] == 404
            assert gateway.session.tally.refused_by_us == 2
            assert "/v1/audio/speech" in str(gateway.session.tally.last_refusal)

    asyncio.run(scenario())


def test_a_wrong_key_and_none_at_all_are_counted_and_explained(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            told = []
            for key in ("Bearer sk-dummy", ""):
                status, said = await post(gateway, CHAT, GOOD, authorization=key)
                told.append((status, orjson.loads(said)["error"]["message"]))
            tally = gateway.session.tally
        assert [status for status, _ in told] == [401, 401]
        assert "is not the key of this trial; send the one that is in the variable OPENAI_API_KEY" in told[0][1]
        assert "is missing; send the one" in told[1][1]
        assert tally == CallTally(requests=2, refused_by_us=2, last_refusal=told[1][1])
        assert (len(fake.received), gateway.calls) == (0, [])

    asyncio.run(scenario())


def test_a_limit_of_the_run_is_no_refusal_of_ours(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=1) as (gateway, _):
            assert [(await post(gateway, CHAT, GOOD))[0] for _ in range(2)] == [200, 429]
            assert gateway.session.tally == CallTally(requests=2, answered=1)

    asyncio.run(scenario())


def test_half_an_answer_is_none(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Cut(after=2)) as (gateway, _):
            await post(gateway, CHAT, GOOD[:-1] + b',"stream":true}')
            assert gateway.session.tally == CallTally(requests=1)

    asyncio.run(scenario())
