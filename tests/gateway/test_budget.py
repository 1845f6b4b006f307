"""Budgets when many calls are under way at once: what is set aside, who waits, and by how much a limit is passed."""

import asyncio
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.budget import Amount, Budget, abandoned, estimate_of, most_of
from seatrial.gateway.prices import ModelPrice
from seatrial.gateway.upstreams.replies import Reply
from seatrial.model.trace import TokenUsage
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Raw, Say
from tests.gateway.gateways import Gateway, gateway_to, post
from tests.gateway.upstream_calls import PATHS, call

CHAT = PATHS["openai_chat"]
PRICE = ModelPrice(input=1.0, output=2.0)
TEN = Reply("ok", usage=TokenUsage(input_tokens=8, output_tokens=2))  # 12 millionths of a dollar


async def flood(gateway: Gateway, body: bytes, count: int = 60) -> list[int]:
    """The statuses of so many calls at once."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(post(gateway, CHAT, body)) for _ in range(count)]
    return sorted(task.result()[0] for task in tasks)


@pytest.mark.parametrize("limit", [{"max_tokens": 25}, {"max_cost_usd": 30e-6}])
@pytest.mark.parametrize("more", [{}, {"max_tokens": 2}, {"max_tokens": 5000}], ids=["endless", "short", "long"])
def test_sixty_at_once_go_over_a_limit_by_one_call_at_most(tmp_path, limit, more):
    async def scenario() -> None:
        fake = FakeProvider(otherwise=Say(TEN))
        async with gateway_to(tmp_path, upstream={"fake": fake}, **limit) as (gateway, _):
            body = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}], **more})
            assert await flood(gateway, body) == [200] * 3 + [429] * 57
            used = gateway.session.usage
            assert (used.calls, used.input_tokens + used.output_tokens) == (3, 30)
            assert (await post(gateway, CHAT, body))[0] == 429
        assert gateway.session.failure is None

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_calls_that_fit_side_by_side_are_not_kept_waiting(tmp_path):
    async def scenario() -> None:
        fake = FakeProvider(otherwise=Say(TEN, late=True))
        async with gateway_to(tmp_path, upstream={"fake": fake}, max_tokens=100_000) as (gateway, _):
            async with asyncio.TaskGroup() as group:
                flooding = group.create_task(flood(gateway, call(max_tokens=100).body, 20))
                await fake.arrived(20)
                fake.release()
            assert flooding.result() == [200] * 20

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_whoever_hangs_up_while_waiting_for_room_leaves_none_behind(tmp_path):
    async def scenario() -> None:
        fake = FakeProvider(Say(TEN, late=True), otherwise=Say(TEN))
        async with gateway_to(tmp_path, upstream={"fake": fake}, max_tokens=100) as (gateway, _):
            async with asyncio.TaskGroup() as group:
                first = group.create_task(post(gateway, CHAT, call(max_tokens=None).body))
                await fake.arrived(1)
                second = group.create_task(post(gateway, CHAT, call(max_tokens=None).body))
                while gateway.session.tally.requests < 2:  # noqa: ASYNC110 - nobody tells of a call that waits
                    await asyncio.sleep(0)
                second.cancel()
                third = group.create_task(post(gateway, CHAT, call(max_tokens=None).body))
                while gateway.session.tally.requests < 3:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0)
                fake.release()
            assert (first.result()[0], third.result()[0]) == (200, 200)
            assert gateway.session.usage.calls == 2

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_leaving_before_the_count_comes_makes_nothing_free(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Hang(after=3), max_tokens=20) as (gateway, _):
            async with gateway.plain() as client:
                answer = await client.post(CHAT, data=call(stream=True).body)
                await answer.content.readany()
                answer.close()
            status, said = await post(gateway, CHAT, call().body)
            assert (status, b"limit of 20 tokens is reached" in said) == (429, True)
        assert gateway.session.usage.input_tokens == 0  # what nobody has told is not in the record

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_call_that_is_left_counts_all_that_was_set_aside_for_it(tmp_path):
    """By its bytes it would be a tenth of that."""

    async def scenario() -> None:
        async with gateway_to(tmp_path, Hang(), max_tokens=500) as (gateway, fake):
            async with gateway.plain() as client:
                asking = asyncio.create_task(client.post(CHAT, data=call(max_tokens=450).body))
                await fake.arrived(1)
                asking.cancel()
                await asyncio.wait([asking])
            gateway.session.waits.break_off()
            status, said = await post(gateway, CHAT, call().body)
            assert (status, b"limit of 500 tokens is reached" in said) == (429, True)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_picture_that_is_left_counts_at_most_what_it_could_say():
    asked = request(messages=[{"content": [{"type": "image"}]}])
    assert most_of(asked, PRICE).tokens == float("inf")
    assert abandoned(asked, most_of(asked, PRICE), PRICE).tokens == len(asked.body) + 2**18


def test_a_count_of_nothing_makes_nothing_free(tmp_path):
    said = Raw(b'{"choices":[{"message":{"content":"hello"}}],"usage":{"prompt_tokens":0,"completion_tokens":0}}')

    async def scenario() -> None:
        async with gateway_to(tmp_path, said, max_tokens=20) as (gateway, _):
            assert [(await post(gateway, CHAT, call().body))[0] for _ in range(2)] == [200, 429]

    asyncio.run(scenario())


@pytest.mark.parametrize("usage", [b"null", b'{"prompt_tokens":-99,"completion_tokens":-99}', b'{"prompt_tokens":"8"}'])
def test_what_has_no_count_that_can_be_is_estimated_and_its_cost_unknown(tmp_path, usage):
    said = Raw(b'{"choices":[{"message":{"content":"hello"}}],"usage":%s}' % usage)

    async def scenario() -> None:
        async with gateway_to(tmp_path, said, max_tokens=20) as (gateway, _):
            assert [(await post(gateway, CHAT, call().body))[0] for _ in range(2)] == [200, 429]
            assert (gateway.session.usage.calls, gateway.session.usage.cost_usd) == (1, None)

    asyncio.run(scenario())


def test_a_refusal_of_the_provider_costs_nothing(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, Fail(404), Fail(404), max_tokens=5) as (gateway, _):
            assert [(await post(gateway, CHAT, call().body))[0] for _ in range(3)] == [404, 404, 200]

    asyncio.run(scenario())


@pytest.mark.parametrize(("path", "name"), [(CHAT, "nobody-knows-it"), (CHAT, None), ("/v1/embeddings", "vectors")])
def test_money_is_not_spent_on_what_has_no_price(tmp_path, path, name):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_cost_usd=1.0) as (gateway, fake):
            body = orjson.dumps({"model": name, "messages": [], "input": "x"})
            status, said = await post(gateway, path, body)
            assert (status, len(fake.received)) == (400, 0)
            assert str(name or "names no model") in orjson.loads(said)["error"]["message"]
            assert gateway.session.tally.refused_by_us == 1
            assert (await post(gateway, CHAT, call().body))[0] == 200
        assert gateway.session.failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 5}])
def test_what_is_answered_in_the_background_is_refused(tmp_path, limits):
    """Its answer comes without a count of tokens, and nothing here could fetch it later."""

    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks="openai_responses", **limits) as (gateway, fake):
            body = call("openai_responses", background=True).body
            status, said = await post(gateway, PATHS["openai_responses"], body)
            assert (status, b"background" in said, len(fake.received)) == (400, True, 0)

    asyncio.run(scenario())


def request(**payload: Any) -> ModelRequest:
    return ModelRequest(CHAT, dialect="openai_chat", payload=payload, body=orjson.dumps(payload))


@pytest.mark.parametrize(
    ("payload", "tokens"),
    [
        ({"max_tokens": 7}, 7 + 16),
        ({"max_tokens": 7, "max_completion_tokens": 9}, 9 + 42),
        ({"max_tokens": 7, "n": 3}, 21 + 22),
        ({"max_tokens": -1}, 2**18 + 17),
        ({"max_tokens": True}, 2**18 + 19),
        ({"max_tokens": 7, "n": 10**400}, float("inf")),
        ({"max_output_tokens": 7}, 2**18 + 23),
        ({"n": 2}, 2 * 2**18 + 7),
        ({"max_tokens": 7, "tools": [{"type": "web_search"}]}, float("inf")),
        ({"max_tokens": 7, "tools": [{"type": []}]}, float("inf")),
        ({"max_tokens": 7, "messages": [{"content": [{"type": "image", "source": {"data": "AAAA"}}]}]}, float("inf")),
        (
            {"max_tokens": 7, "messages": [{"content": [{"type": "tool_result", "content": [{"type": "document"}]}]}]},
            float("inf"),
        ),
        ({"max_tokens": 7, "messages": [{"content": [{"type": ["text"]}]}]}, float("inf")),
        ({"max_tokens": 7, "input": [{"type": "input_file", "file_data": "AAAA"}]}, float("inf")),
        ({"max_tokens": 7, "contents": [{"parts": [{"inlineData": {"data": "AAAA"}}]}]}, float("inf")),
        ({"max_tokens": 7, "contents": [{"parts": [{"functionResponse": {"parts": [{}]}}]}]}, float("inf")),
        ({"max_tokens": 7, "contents": [{"parts": [{"functionResponse": {"name": "f"}}]}]}, 7 + 75),
        ({"max_tokens": 7, "messages": [{"role": "user", "content": "image_url"}]}, 7 + 67),
        ({"max_tokens": 7, "messages": [{"image_url": "https://host/large.png"}]}, float("inf")),
    ],
)
def test_the_most_that_a_request_can_take(payload, tokens):
    body = b"{}" if payload.get("n", 0) > 2**64 else orjson.dumps(payload)
    amount = most_of(ModelRequest(CHAT, dialect="openai_chat", payload=payload, body=body), PRICE)
    assert amount.tokens == pytest.approx(tokens)


def test_what_is_free_costs_nothing_without_end():
    assert most_of(request(prompt="1"), ModelPrice(input=0.0, output=0.0)) == Amount(float("inf"), 0.0)
    assert estimate_of(request(), 9, None) == Amount(1 + 3, 0.0)


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=30), st.integers(1, 200))
def test_however_calls_end_no_more_than_one_goes_over(calls, limit):
    """Each takes at most what was set aside for it; those that wait go as soon as others have ended."""

    async def scenario() -> list[int]:
        budget, spent, gate = Budget(limit, None), [0], asyncio.Semaphore(0)

        async def one(most: int, takes: int) -> None:
            await budget.hold(Amount(most))
            if budget.refusal() is None:
                await gate.acquire()
                spent[0] += takes
                budget.spend(Amount(takes))
            budget.let_go(Amount(most))

        async with asyncio.TaskGroup() as group:
            for most, takes in calls:
                group.create_task(one(most, min(most, takes)))
            for _ in range(len(calls)):
                gate.release()
        return [spent[0], max(min(takes, most) for most, takes in calls)]

    spent, largest = asyncio.run(asyncio.wait_for(scenario(), 30))
    assert spent < limit + largest


def test_calls_that_are_cancelled_at_once_hold_nothing():
    async def run() -> set[type]:
        budget = Budget(10, None)

        async def call() -> None:
            await budget.hold(Amount(10))
            try:
                await asyncio.Event().wait()
            finally:
                budget.let_go(Amount(10))

        tasks = [asyncio.create_task(call()) for _ in range(4)]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(budget.hold(Amount(10)), 20)
        return {type(each) for each in ended}

    assert asyncio.run(run()) == {asyncio.CancelledError}
