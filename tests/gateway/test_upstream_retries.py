"""HttpProvider when the provider fails: what is tried again, how long it waits, and what is given up."""

import asyncio

import pytest

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.upstreams.failures import error_message
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.testing.fake_provider import Big, Cut, Fail, FakeProvider, Hang, Raw, Say
from tests.gateway.upstream_calls import KEY, Naps, ask, call, provider


def failing(*script, status: int | None = None, request: ModelRequest | None = None, **options):
    """The error, the waits and how many requests the provider saw."""

    async def run():
        naps = Naps()
        async with provider(*script, naps=naps, **options) as (upstream, fake):
            with pytest.raises(ProviderError) as caught:
                await ask(upstream, request or call())
            return caught.value, naps, len(fake.received)

    error, naps, count = asyncio.run(run())
    assert error.status == status
    assert KEY not in str(error)
    return error, naps, count


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 522, 529])
def test_passing_failures_are_tried_again(status: int):
    async def run():
        naps = Naps()
        async with provider(Fail(status), Fail(status), Say("at last"), naps=naps) as (upstream, fake):
            answered = await ask(upstream, call())
            assert answered.json["choices"][0]["message"]["content"] == "at last"
            assert len(fake.received) == 3
            assert len({received.body for received in fake.received}) == 1
            return naps

    assert asyncio.run(run()) == [0.25, 0.5]


def test_a_failure_that_lasts_is_the_providers_with_its_status_and_words():
    error, naps, count = failing(*[Fail(503, "overloaded, sorry")] * 9, status=503, retries=4)
    assert "overloaded, sorry" in str(error)
    assert "asked 5 times" in str(error)
    assert (count, len(naps)) == (5, 4)
    assert error.retryable


def test_what_the_provider_says_is_bounded():
    error, _, _ = failing(Raw(b"<html>" + b"long " * 100_000, 502), status=502, retries=0)
    assert len(str(error)) < 800


def test_retry_after_is_honoured():
    async def run():
        naps = Naps()
        script = [Fail(429, headers={"retry-after": "7"}), Fail(429, headers={"retry-after-ms": "1500"})]
        async with provider(*script, naps=naps) as (upstream, _):
            await ask(upstream, call())
            return naps

    assert asyncio.run(run()) == [7.0, 1.5]


def test_whoever_waits_holds_no_slot():
    async def run():
        waiting, go_on = asyncio.Event(), asyncio.Event()

        async def sleep(_: float) -> None:
            waiting.set()
            await go_on.wait()

        async with FakeProvider(Fail(429), Say("second"), Say("first")) as fake:
            options = ProviderOptions(base_url=fake.base_url, max_concurrent=1)
            async with HttpProvider(options, sleep=sleep) as upstream, asyncio.TaskGroup() as group:
                first = group.create_task(ask(upstream, call()))
                await waiting.wait()
                assert b"second" in (await ask(upstream, call())).body
                go_on.set()
            assert b"first" in first.result().body

    asyncio.run(run())


def test_a_storm_of_429_ends_with_everyone_served():
    async def run():
        async with provider(*[Fail(429)] * 100, retries=200, max_concurrent=10) as (upstream, fake):
            async with asyncio.TaskGroup() as group:
                calls = [group.create_task(ask(upstream, call())) for _ in range(50)]
            assert len(fake.received) == 150
            assert fake.most_in_flight <= 10
            return {task.result().status for task in calls}

    assert asyncio.run(run()) == {200}


@pytest.mark.parametrize(
    "step",
    [
        Fail(401, "bad key"),
        Fail(402, "no money"),
        Raw(b'{"error": {"code": "insufficient_quota", "message": "no money"}}', 429),
        Fail(502, headers={"x-should-retry": "false"}),
        Fail(501),
    ],
)
def test_what_cannot_pass_is_given_up_at_once(step):
    error, naps, count = failing(step, status=step.status)
    assert not error.retryable
    assert (count, naps) == (1, [])


def test_a_refused_key_on_other_paths_is_the_agents_business():
    async def run():
        async with provider(Fail(401)) as (upstream, _):
            assert (await ask(upstream, ModelRequest("/v1/organization/keys", method="GET"))).status == 401

    asyncio.run(run())


def test_a_redirect_is_not_followed():
    error, _, count = failing(Raw(b"", 307, {"location": "http://elsewhere.example/v1"}), status=307)
    assert "elsewhere.example" in str(error)
    assert count == 1


def test_an_unreachable_provider():
    async def run():
        naps = Naps()
        async with FakeProvider() as fake:
            gone = fake.base_url
        async with HttpProvider(ProviderOptions(base_url=gone, retries=2), sleep=naps) as upstream:
            with pytest.raises(ProviderError, match="cannot be reached") as caught:
                await ask(upstream, call())
            return caught.value, naps

    error, naps = asyncio.run(run())
    assert (error.status, error.retryable, len(naps)) == (None, True, 2)


@pytest.mark.parametrize("step", [Cut(), Cut(after=0), Hang(), Hang(after=0)])
def test_what_breaks_before_the_first_byte_is_tried_again(step):
    async def run():
        async with provider(step, Say("hi"), first_byte_timeout_sec=0.2) as (upstream, fake):
            assert b"hi" in (await ask(upstream, call(stream=True))).body
            assert len(fake.received) == 2

    asyncio.run(run())


def test_a_provider_that_only_hangs():
    error, _, count = failing(Hang(), Hang(), retries=1, first_byte_timeout_sec=0.1)
    assert "did not begin to answer within 0.1 s" in str(error)
    assert count == 2


@pytest.mark.parametrize(
    ("step", "reason"), [(Cut(after=3), "the connection broke"), (Hang(after=3), "nothing more came")]
)
def test_a_stream_that_stops_in_the_middle_is_not_tried_again(step, reason: str):
    chunks = []

    async def read(upstream: HttpProvider) -> None:
        async with upstream.ask(call(stream=True)) as reply:
            async for chunk in reply.chunks:
                chunks.append(chunk)  # noqa: PERF401 - the point is what came before the error

    async def run():
        async with provider(step, idle_timeout_sec=0.2) as (upstream, fake):
            with pytest.raises(ProviderError, match=reason):
                await read(upstream)
            assert len(fake.received) == 1

    asyncio.run(run())
    assert b"".join(chunks).count(b"data: ") == 3


def test_a_slow_reader_is_no_idle_provider():
    async def run():
        size = 2 * 2**20
        async with provider(Big(size), idle_timeout_sec=0.05) as (upstream, _), upstream.ask(call()) as reply:
            total = 0
            async for chunk in reply.chunks:
                total += len(chunk)
                if total - len(chunk) < size // 2 <= total:
                    await asyncio.sleep(0.15)  # real time has to pass: it is the provider's timer that must not fire
            assert total > size

    asyncio.run(run())


def test_chunks_are_handed_on_before_the_answer_is_complete():
    async def run():
        async with provider(Hang(after=2)) as (upstream, _), upstream.ask(call(stream=True)) as reply:
            first = await anext(reply.chunks)
            assert first.startswith(b"data: ")

    asyncio.run(run())


def test_whoever_leaves_early_or_is_cancelled_gives_the_slot_back():
    async def run():
        async with provider(Hang(after=1), Hang(), Say("hi"), max_concurrent=1) as (upstream, fake):
            async with upstream.ask(call(stream=True)):
                pass
            task = asyncio.ensure_future(ask(upstream, call()))
            await fake.arrived(2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert b"hi" in (await ask(upstream, call())).body

    asyncio.run(run())


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "no\\n such model"}}', "no such model"),
        (b'{"error": "plain"}', "plain"),
        (b'{"detail": 1}', '{"detail": 1}'),
        (b"\xff<html>", "\ufffd<html>"),
        (b"[]", "[]"),
    ],
)
def test_reading_error_messages(body: bytes, message: str):
    assert error_message(body) == message
