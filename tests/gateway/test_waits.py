"""Silence: the model's failure, or an agent that did not wait; by a clock that is turned by hand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from seatrial.errors import ModelSilentError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.waits import LONG_SEC, PendingCall, StallMonitor, longest_silence_sec, robbed_sec
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Say
from tests.conftest import sampled
from tests.gateway.gateways import Gateway, Pieces, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import PATHS, Naps, call


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """The calls of an agent that has a hundred seconds, unless told otherwise: a quarter of them is too much."""

    def __init__(self, agent_sec: float | None = 100.0, *, sees_through: bool = False) -> None:
        self.clock = Clock()
        self.waits = StallMonitor(sees_through=sees_through, clock=self.clock)
        self.waits.agent_starts(agent_sec)

    def pass_sec(self, seconds: float) -> None:
        self.clock.now += seconds

    def owed(self, *, timed_out: bool = False) -> float | None:
        return self.waits.owed_sec(timed_out=timed_out)


def by_hand(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 30))


def begin(desk: Desk) -> PendingCall:
    return desk.waits.begin(lambda: True)


@pytest.mark.parametrize(
    ("agent_sec", "slowest", "longest", "robbed"),
    [
        (None, 0.0, LONG_SEC, LONG_SEC),
        (4.0, 0.0, 1.0, 1.0),
        (100.0, 0.0, 25.0, 25.0),
        (600.0, 0.0, 60.0, 60.0),
        (3600.0, 0.0, 60.0, 360.0),
        (100.0, 30.0, 60.0, 60.0),
    ],
)
def test_how_long_is_too_long(agent_sec, slowest, longest, robbed):
    assert (longest_silence_sec(agent_sec, slowest), robbed_sec(agent_sec, slowest)) == (longest, robbed)


def test_a_call_that_waits_to_the_end_of_the_agents_time():
    async def scenario() -> None:
        desk = Desk()
        desk.pass_sec(70)
        begin(desk)
        desk.pass_sec(20)
        assert desk.owed() is None
        desk.pass_sec(10)
        assert desk.owed(timed_out=True) == 30

    by_hand(scenario)


def test_a_call_at_the_last_moment_is_the_agents_own():
    async def scenario() -> None:
        desk = Desk()
        desk.pass_sec(90)
        begin(desk)
        desk.pass_sec(10)
        assert desk.owed(timed_out=True) is None

    by_hand(scenario)


def test_many_short_waits_for_the_same_silence_add_up():
    """An SDK that gives up after ten seconds and asks again has waited for all of them."""

    async def scenario() -> None:
        desk = Desk()
        for _ in range(3):
            wait = begin(desk)
            desk.pass_sec(10)
            desk.waits.end(wait, answered=False)
            desk.pass_sec(5)  # in which nobody waits for anything
        assert desk.owed() == 30

    by_hand(scenario)


def test_a_word_ends_the_silence():
    async def scenario() -> None:
        desk = Desk()
        wait = begin(desk)
        desk.pass_sec(10)
        wait.heard()
        desk.pass_sec(10)
        assert (wait.silent_sec(), desk.owed()) == (10, None)
        desk.waits.end(wait, answered=True)
        desk.pass_sec(500)
        assert desk.owed() is None

    by_hand(scenario)


def test_a_silence_in_the_middle_of_an_answer_is_one():
    async def scenario() -> None:
        desk = Desk()
        wait = begin(desk)
        wait.heard()
        desk.pass_sec(26)
        assert desk.owed() == 26

    by_hand(scenario)


def test_a_slow_model_may_take_its_time_again():
    async def scenario() -> None:
        desk = Desk()
        first = begin(desk)
        desk.pass_sec(20)
        first.heard()
        desk.waits.end(first, answered=True)
        begin(desk)
        desk.pass_sec(39)
        assert desk.owed() is None
        desk.pass_sec(1)
        assert desk.owed() == 40

    by_hand(scenario)


def test_one_silent_call_among_others_counts_unless_there_are_many():
    async def scenario(others: int) -> None:
        desk = Desk()

        async def asked() -> PendingCall:
            return begin(desk)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asked()) for _ in range(others)]
        waits = [task.result() for task in tasks]
        begin(desk)
        for seconds in (5, 25):
            desk.pass_sec(seconds)
            for wait in waits:
                wait.heard()
        assert desk.owed() == (30 if others < 16 else None)

    by_hand(lambda: scenario(3))
    by_hand(lambda: scenario(16))


def test_a_call_given_up_counts_until_another_is_answered():
    async def scenario() -> None:
        desk = Desk()
        stuck = begin(desk)
        desk.pass_sec(30)
        desk.waits.end(stuck, answered=False)
        assert desk.owed() == 30
        later = begin(desk)
        desk.pass_sec(1)
        later.heard()
        assert desk.owed() is None

    by_hand(scenario)


async def left_by_its_agent(
    desk: Desk, *, go_on: asyncio.Event, words: int = 0, left_after_sec: float = 0.0, complete: bool = False
) -> str:
    """A call whose agent hangs up after some words and seconds; what became of it."""

    async def answer() -> str:
        wait = desk.waits.begin(lambda: not complete)
        for _ in range(words):
            wait.heard()
        try:
            await go_on.wait()
        except asyncio.CancelledError:
            return "broken off"
        else:
            wait.heard()
            return "answered"
        finally:
            desk.waits.end(wait, answered=False)

    task = asyncio.create_task(answer())
    await asyncio.sleep(0)
    desk.pass_sec(left_after_sec)
    desk.waits.agent_left(task)
    return await task


@pytest.mark.parametrize("words", [0, 1])
@pytest.mark.parametrize("answers", [True, False])
def test_a_call_that_is_hung_up_on_is_seen_through(answers, words):
    """Real time, a little: the limit is a timer of the event loop. A word more tells the same as the first one."""

    async def scenario() -> None:
        desk = Desk(0.2, sees_through=True)
        desk.waits.clock = asyncio.get_running_loop().time
        desk.waits.agent_starts(0.2)
        go_on = asyncio.Event()
        if answers:
            go_on.set()
        became = await left_by_its_agent(desk, go_on=go_on, words=words)
        assert became == ("answered" if answers else "broken off")
        assert (desk.owed() is None) == answers

    by_hand(scenario)


def test_an_answer_that_is_complete_is_not_waited_for():
    async def scenario() -> None:
        desk = Desk(sees_through=True)
        assert await left_by_its_agent(desk, go_on=asyncio.Event(), words=1, complete=True) == "broken off"
        assert desk.owed() is None

    by_hand(scenario)


@pytest.mark.parametrize(("agent_sec", "is_waited_for"), [(20.0, True), (6.0, False)])
def test_whoever_leaves_early_is_waited_for_as_long_as_it_could_have_waited(agent_sec, is_waited_for):
    """Six seconds are more than it need have waited; the answer comes two seconds later."""

    async def scenario() -> None:
        desk = Desk(agent_sec, sees_through=True)
        answered = asyncio.Event()
        ended = asyncio.create_task(left_by_its_agent(desk, go_on=answered, left_after_sec=6.0))
        for _ in range(5):
            await asyncio.sleep(0)
        desk.pass_sec(2)
        answered.set()
        assert await ended == ("answered" if is_waited_for else "broken off")
        assert (desk.owed() is None) == is_waited_for

    by_hand(scenario)


def test_where_nobody_else_would_hear_the_answer_it_is_broken_off_at_once():
    async def scenario() -> None:
        desk = Desk()
        assert await left_by_its_agent(desk, go_on=asyncio.Event()) == "broken off"
        assert desk.owed() is None

    by_hand(scenario)


def test_a_new_call_takes_the_place_of_one_that_was_left():
    async def scenario() -> None:
        desk = Desk(sees_through=True)
        ended = asyncio.create_task(left_by_its_agent(desk, go_on=asyncio.Event()))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not ended.done()
        wait = begin(desk)
        wait.heard()
        assert await ended == "broken off"

    by_hand(scenario)


def test_whoever_is_cut_off_by_the_end_of_its_time_did_not_hang_up():
    async def scenario() -> None:
        desk = Desk(sees_through=True)
        asked = asyncio.Event()

        async def answer() -> str | None:
            wait = begin(desk)
            asked.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return wait.left_by
            return None

        task = asyncio.create_task(answer())
        await asked.wait()
        desk.pass_sec(100)
        desk.waits.agent_left(task)
        assert await task == "us"

    by_hand(scenario)


CHAT = PATHS["openai_chat"]


@pytest.mark.parametrize("step", [Hang(after=2), Hang()])
def test_a_stream_that_stalls_is_the_models_failure_though_the_agent_left_it(tmp_path, monkeypatch, step):
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.3)
    monkeypatch.setattr("seatrial.gateway.waits._GLANCE_SEC", 0.0)

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
    monkeypatch.setattr("seatrial.gateway.waits.LONG_SEC", 0.3)

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
    sampled(
        [
            ([LONG], True),
            ([Fail(500)], True),
            ([Fail(503)], True),
            ([QUICK, LONG], False),
            ([QUICK, QUICK], True),
        ]
    ),
    ids=["silent", "failing", "overloaded", "a long answer", "it had no time just then"],
)
def test_a_plain_question_and_the_same_once_more_tell_whose_silence_it_was(tmp_path, monkeypatch, later, is_the_models):
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.5)
    monkeypatch.setattr("seatrial.gateway.waits._MOST_DOUBT_SEC", 0.5)
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
    monkeypatch.setattr("seatrial.gateway.waits._GLANCE_SEC", 0.0)

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
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.5)

    async def scenario() -> None:
        fake = FakeProvider(Say(), otherwise=Hang() if status is None else Fail(status))
        options = {"fake": fake, "retries": 4, "naps": Together(2)}
        async with gateway_to(tmp_path, upstream=options) as (gateway, _), gateway.plain() as client:
            gateway.session.waits.agent_starts(1000)
            await (await client.post(CHAT, data=call().body)).read()
            monkeypatch.setattr("seatrial.gateway.waits._GLANCE_SEC", 0.0)
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
