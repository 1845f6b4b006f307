"""Silence at a gateway that is served: agents that hang up on real providers, which stall, flood or keep alive."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from seatrial.errors import ModelSilentError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import PATHS
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang
from tests.gateway.gateways import Pieces, gateway_to, open_gateway, post
from tests.gateway.test_silence import by_hand
from tests.gateway.upstream_calls import Naps, call

CHAT = PATHS["openai_chat"]


@pytest.mark.parametrize("step", [Hang(after=2), Hang()])
def test_a_stream_that_stalls_is_the_models_failure_though_the_agent_left_it(tmp_path, monkeypatch, step):
    monkeypatch.setattr("seatrial.gateway.silence.LONG_SEC", 0.3)

    async def scenario() -> None:
        async with gateway_to(tmp_path, step) as (gateway, fake):
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

    @asynccontextmanager
    async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
        await self.left.wait()

        async def chunks() -> AsyncIterator[bytes]:
            yield b": still here\n\n"
            await asyncio.Event().wait()

        yield ModelReply(200, {}, chunks())


def test_a_keep_alive_does_not_tell_that_a_model_would_have_answered(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.silence.LONG_SEC", 0.3)

    async def scenario() -> None:
        upstream = KeepingAlive()
        async with open_gateway(upstream, tmp_path) as gateway:
            monkeypatch.setattr(gateway.session, "left", lambda *_: upstream.left.set())
            async with gateway.plain() as client:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.post(CHAT, data=call(stream=True).body), 0.05)
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
