"""Agents whose model does not answer: whose failure it is, and that a rollout is over when its agent is."""

import asyncio
from collections import Counter

import pytest

import seatrial as vf
from seatrial.testing.fake import answer
from seatrial.testing.fake_provider import Fail, FakeProvider, Hang, Say
from tests.env.worlds import REWARD_TXT, ask, harbor_env, make_tasks, only, record_of, text_of, world

FAILED = {REWARD_TXT: b"0"}


def hasty(seconds: float, *words: str):
    """An agent whose client gives up after so long, without another attempt."""

    async def agent(spec, sandbox):
        try:
            async with asyncio.timeout(seconds):
                for word in words or ("one",):
                    text_of(await ask(spec, word))
        except TimeoutError:
            return answer(exit_code=1)
        return None

    return agent


async def rollouts(folder, fake, agent, count: int = 1, **options):
    """What becomes of rollouts that have an hour, in a time in which none of them should need it."""
    env = harbor_env(
        make_tasks(folder, *[f"task_{number}" for number in range(count)]), backend=world(agent, FAILED), **options
    )
    client = fake if callable(fake) else vf.ClientConfig(base_url=fake.base_url, max_retries=0, max_connections=4)
    async with asyncio.timeout(60):
        return await env.evaluate(client, "m", retries=0, state_columns=["_rollout"], max_concurrent=count)


@pytest.mark.whole
def test_an_agent_that_gives_up_on_a_hung_provider_ends_its_rollout_and_has_not_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.5)

    async def scenario():
        async with FakeProvider(Say(), otherwise=Hang()) as fake:
            return await rollouts(tmp_path, fake, hasty(1.5, "one", "two"))

    output = only(asyncio.run(scenario()))
    assert (output["reward"], output["error"]["error"]) == (None, "ModelSilentError")
    failure = record_of(output).failure
    assert (failure.cause, failure.retryable) == ("ModelSilentError", True)
    assert "when the agent gave up (1 of its 2 calls had been answered)" in failure.message


def test_an_agent_that_does_not_wait_for_a_model_that_answers_has_failed(tmp_path):
    async def scenario():
        async with FakeProvider(Hang(), otherwise=Say()) as fake:
            return await rollouts(tmp_path, fake, hasty(0.2))

    output = only(asyncio.run(scenario()))
    assert (output["error"], record_of(output).outcome) == (None, "fail")


def test_a_function_that_hangs_is_given_up_with_its_agent(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.2)

    async def hangs(messages):
        await asyncio.Event().wait()

    output = only(asyncio.run(rollouts(tmp_path, hangs, hasty(0.2))))
    assert (output["reward"], output["error"]["error"]) == (None, "ModelSilentError")


def test_a_function_that_answers_later_was_not_waited_for(tmp_path):
    async def slow(messages):
        await asyncio.wait_for(left.wait(), 30)
        return "late"

    async def agent(spec, sandbox):
        await hasty(0.2)(spec, sandbox)
        asyncio.get_running_loop().call_soon(left.set)

    left = asyncio.Event()
    assert record_of(only(asyncio.run(rollouts(tmp_path, slow, agent)))).outcome == "fail"


@pytest.mark.whole
def test_no_rollout_of_many_is_scored_zero_for_calls_that_did_not_get_through(tmp_path, monkeypatch):
    """Four calls at a time, of which none is ever answered: most of them never leave this machine."""
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.5)

    async def scenario():
        async with FakeProvider(*[Say()] * 6, otherwise=Hang()) as fake:
            return await rollouts(tmp_path, fake, hasty(2.0), count=24)

    found = Counter(record_of(each).outcome for each in asyncio.run(scenario())["outputs"])
    assert found == {"fail": 6, "infrastructure_error": 18}


@pytest.mark.whole
def test_a_provider_that_only_fails_when_the_time_runs_out_took_it(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.waits._LEAST_DOUBT_SEC", 0.5)

    async def agent(spec, sandbox):
        await ask(spec, "one")
        await asyncio.sleep(2.0)
        await ask(spec, "two")

    async def scenario():
        failing = Fail(529, headers={"retry-after": "60"})
        async with FakeProvider(Say(), otherwise=failing) as fake:
            env = harbor_env(make_tasks(tmp_path), backend=world(agent, FAILED), timeout_seconds=4.0)
            client = vf.ClientConfig(base_url=fake.base_url)
            return await env.evaluate(client, "m", retries=0, state_columns=["_rollout"])

    failure = record_of(only(asyncio.run(scenario()))).failure
    assert failure.cause == "ModelSilentError"
    assert "answered 529" in failure.message
