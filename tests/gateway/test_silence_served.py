"""Silence at a gateway that is served: agents that hang up on real providers, which stall, flood or keep alive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from seatrial.errors import ModelSilentError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import PATHS
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Say
from tests.gateway.gateways import Gateway, Pieces, gateway_to, open_gateway, post
from tests.gateway.test_silence import by_hand
from tests.gateway.upstream_calls import Naps, call

CHAT = PATHS["openai_chat"]


@pytest.mark.parametrize("step", [Hang(after=2), Hang()])
def test_a_stream_that_stalls_is_the_models_failure_though_the_agent_left_it(tmp_path, monkeypatch, step):
    monkeypatch.setattr("seatrial.gateway.silence._LEAST_DOUBT_SEC", 0.3)
    monkeypatch.setattr("seatrial.gateway.silence._GLANCE_SEC", 0.0)

    async def scenario() -> None:
        async with gateway_to(tmp_path, upstream={"fake": FakeProvider(otherwise=step)}) as (gateway, fake):
            async with gateway.plain() as client:
                asking = asyncio.create_task(client.post(CHAT, data=call(stream=True).body))
                await fake.arrived(1)
                if step.after:
                    async with await asking as answer:
                        await answer.content.readany()
                        answer.close()
                asking.cancel()
            with pytest.raises(ModelSilentError):
                await gateway.session.check_end(timed_out=False)

    by_hand(scenario)


class KeepingAlive(Pieces):
    """Sends nothing but keep-alives, from when the agent has left."""

    seen_through = True

    def __init__(self) -> None:
        super().__init__([])
        self.left = asyncio.Event()
        self.ended = asyncio.Event()

    @asynccontextmanager
    async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
        await self.left.wait()

        async def chunks() -> AsyncIterator[bytes]:
            yield b": still here\n\n"
            await asyncio.Event().wait()

        try:
            yield ModelReply(200, {}, chunks())
        finally:
            asyncio.get_running_loop().call_soon(self.ended.set)


def test_a_keep_alive_does_not_tell_that_a_model_would_have_answered(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.silence.LONG_SEC", 0.3)

    async def scenario() -> None:
        upstream = KeepingAlive()
        async with open_gateway(upstream, tmp_path) as gateway:
            monkeypatch.setattr(gateway.session, "left", lambda *_: upstream.left.set())
            async with gateway.plain() as client:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.post(CHAT, data=call(stream=True).body), 0.05)
            await upstream.ended.wait()
            with pytest.raises(ModelSilentError):
                await gateway.session.check_end(timed_out=False)

    by_hand(scenario)


@pytest.mark.parametrize(("calls", "is_its_own"), [(8, False), (70, True)])
def test_whoever_floods_a_provider_is_told_so_and_judged(tmp_path, calls, is_its_own):
    async def scenario() -> None:
        fake = FakeProvider(otherwise=Fail(429, "too many of yours"))
        options = {"fake": fake, "max_concurrent": 200, "retries": 1, "naps": Together(calls)}
        async with gateway_to(tmp_path, upstream=options) as (gateway, _):
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(post(gateway, CHAT, call().body)) for _ in range(calls)]
            assert {task.result()[0] for task in asked} == {429}
            told = [each.error.kind for each in gateway.calls if each.error]
            assert (told[0], gateway.session.failure is None) == ("agent" if is_its_own else "provider", is_its_own)

    by_hand(scenario)


class Together(Naps):
    """Lets nobody go on before all have come."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._barrier = asyncio.Barrier(count)

    async def __call__(self, seconds: float) -> None:
        await self._barrier.wait()


def test_what_kept_a_provider_from_answering_is_told(tmp_path):
    async def scenario() -> None:
        naps = Together(2)
        async with gateway_to(tmp_path, Fail(429, "come back tomorrow"), upstream={"retries": 1, "naps": naps}) as (
            gateway,
            fake,
        ):
            gateway.session.waits.agent_starts(0.001)
            async with gateway.plain() as client:
                asking = asyncio.create_task(client.post(CHAT, data=call().body))
                await fake.arrived(1)
                while gateway.session.trouble() is None:  # noqa: ASYNC110 - nobody tells of an attempt
                    await asyncio.sleep(0)
                asking.cancel()
                failure = gateway.session.silence(timed_out=True)
        assert "come back tomorrow" in str(failure)
        assert "come back tomorrow" in str(gateway.calls[0].error)

    by_hand(scenario)


async def given_up(gateway: Gateway, fake: FakeProvider) -> None:
    """A call that an agent hangs up on once it has arrived."""
    async with gateway.plain() as client:
        asking = asyncio.create_task(client.post(CHAT, data=call().body))
        await fake.arrived(1)
        asking.cancel()
        await asyncio.wait([asking])


QUICK, LONG = Say(), Hang()


@pytest.mark.parametrize(
    ("later", "is_the_models"),
    [
        ([LONG], True),
        ([Fail(500)], True),
        ([Fail(503)], True),
        ([QUICK, LONG], False),
        ([QUICK, QUICK], True),
    ],
    ids=["silent", "failing", "overloaded", "a long answer", "it had no time just then"],
)
def test_a_plain_question_and_the_same_once_more_tell_whose_silence_it_was(tmp_path, monkeypatch, later, is_the_models):
    monkeypatch.setattr("seatrial.gateway.silence._LEAST_DOUBT_SEC", 0.5)
    monkeypatch.setattr("seatrial.gateway.silence._MOST_DOUBT_SEC", 0.5)
    passed = 0.0

    async def scenario() -> None:
        async with gateway_to(tmp_path, LONG, *later) as (gateway, fake):
            waits = gateway.session.waits
            waits.clock = lambda: asyncio.get_running_loop().time() + passed
            await given_up(gateway, fake)
            nonlocal passed
            passed = 2.0
            try:
                await gateway.session.check_end(timed_out=False)
            except ModelSilentError:
                assert is_the_models
            else:
                assert not is_the_models

    by_hand(scenario)


def test_a_call_that_waits_for_a_place_at_the_provider_is_not_held_against_the_agent(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.silence._GLANCE_SEC", 0.0)

    async def scenario() -> None:
        options = {"fake": FakeProvider(LONG), "max_concurrent": 1}
        async with gateway_to(tmp_path, upstream=options) as (gateway, fake), gateway.plain() as client:
            calls = [asyncio.create_task(client.post(CHAT, data=call().body)) for _ in range(2)]
            await fake.arrived(1)
            while gateway.session.trouble() is None:  # noqa: ASYNC110 - nobody tells of an attempt
                await asyncio.sleep(0)
            with pytest.raises(ModelSilentError, match="no place free"):
                await gateway.session.check_end(timed_out=False)
            for each in calls:
                each.cancel()

    by_hand(scenario)


@pytest.mark.parametrize(("status", "is_the_models"), [(503, True), (429, True), (500, True), (None, False)])
def test_a_provider_that_only_fails_at_the_end_of_the_agents_time_took_it(tmp_path, monkeypatch, status, is_the_models):
    """The agent has a thousand seconds, and asked in the last moment."""
    monkeypatch.setattr("seatrial.gateway.silence._LEAST_DOUBT_SEC", 0.5)

    async def scenario() -> None:
        fake = FakeProvider(Say(), otherwise=Hang() if status is None else Fail(status))
        options = {"fake": fake, "retries": 4, "naps": Together(2)}
        async with gateway_to(tmp_path, upstream=options) as (gateway, _), gateway.plain() as client:
            gateway.session.waits.agent_starts(1000)
            await (await client.post(CHAT, data=call().body)).read()
            monkeypatch.setattr("seatrial.gateway.silence._GLANCE_SEC", 0.0)
            asking = asyncio.create_task(client.post(CHAT, data=call().body))
            await fake.arrived(2)
            while status is not None and gateway.session.trouble() is None:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            try:
                await gateway.session.check_end(timed_out=True)
            except ModelSilentError:
                assert is_the_models
            else:
                assert not is_the_models
            asking.cancel()

    by_hand(scenario)


def test_whoever_has_two_calls_race_and_leaves_the_slower_one_is_judged(tmp_path):
    async def scenario() -> None:
        options = {"fake": FakeProvider(LONG, QUICK, otherwise=LONG)}
        async with gateway_to(tmp_path, upstream=options) as (gateway, fake):
            async with gateway.plain() as client:
                slower = asyncio.create_task(client.post(CHAT, data=call().body))
                await fake.arrived(1)
                await (await client.post(CHAT, data=call().body)).read()
                slower.cancel()
                await asyncio.wait([slower])
            await gateway.session.check_end(timed_out=False)
            assert len(fake.received) == 2

    by_hand(scenario)
