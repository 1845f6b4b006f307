"""Rollouts on a machine that is out of something: an error on the state, and no reward that anybody averages."""

import asyncio
from dataclasses import replace

import pytest

import seatrial as vf
from seatrial.errors import HostExhaustedError
from seatrial.testing.fake import ALL_POWERFUL
from tests.env.worlds import COLUMNS, REWARD_TXT, echo, harbor_env, make_tasks, only, record_of, world
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage


class OwnReward(vf.HarborEnv):
    async def compute_reward(self, state):
        return 0.25


def evaluate(tmp_path, reward, *, wrote=0, kind=vf.HarborEnv):
    """The output of a rollout whose agent saw a full disk, of which it wrote so much of the 1000 bytes itself."""
    gauge = FakeGauge()

    async def agent(_, sandbox):
        sandbox.files["/app/answer.txt"] = b"x" * wrote
        gauge.found = shortage()

    backend = world(agent, {REWARD_TXT: reward}, capabilities=replace(ALL_POWERFUL, state_folders=(tmp_path,)))
    env = harbor_env(make_tasks(tmp_path / "tasks"), kind, backend=backend)

    async def run():
        on_watch(gauge)
        return await env.evaluate(echo, "gpt-4", state_columns=[*COLUMNS, "error"], retries=0)

    return only(asyncio.run(asyncio.wait_for(run(), 30)))


@pytest.mark.parametrize("kind", [vf.HarborEnv, OwnReward])
def test_a_rollout_that_a_full_machine_spoiled_has_no_reward(tmp_path, kind):
    output = evaluate(tmp_path, b"0", kind=kind)
    record = record_of(output)
    assert record.failure.cause == HostExhaustedError.__name__
    assert record.evaluation is None


def test_a_full_reward_stands(tmp_path):
    output = evaluate(tmp_path, b"1")
    assert (output["reward"], record_of(output).outcome) == (1.0, "pass")


def test_whoever_took_it_is_judged(tmp_path):
    output = evaluate(tmp_path, b"0", wrote=900)
    assert (output["reward"], record_of(output).outcome) == (0.0, "fail")
