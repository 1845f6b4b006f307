"""Rollouts that are trials are let in and tried again like the trials of a job."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import seatrial as vf
from seatrial.env import trial_rollouts
from seatrial.env.row_places import LocalRows
from seatrial.env.run_row import RowPlan
from seatrial.env.trial_rollouts import RolloutPlaces
from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.jobs.admission import Admission
from seatrial.jobs.places import memory_of
from seatrial.sandbox.host.watch import host_watch
from seatrial.testing.fake import ALL_POWERFUL
from tests.env.worlds import REWARD_TXT, echo, evaluate, harbor_env, make_tasks, only, record_of, world
from tests.sandbox.host.fakes import FakeGauge, on_watch, shortage

pytestmark = pytest.mark.usefixtures("no_pauses")


class Unlucky(vf.HarborEnv):
    """Sandboxes fail after the agent, so often."""

    failures = 2
    seen = 0
    error: type[vf.TrialError] = SandboxError

    async def compute_reward(self, state):
        self.seen += 1
        if self.seen <= self.failures:
            raise self.error("the machine is on fire")
        return await super().compute_reward(state)


def seen(env: Any) -> int:
    """How often it came to a verdict."""
    return int(env.seen)


class Hopeless(Unlucky):
    failures = 99


class Buggy(Unlucky):
    error = vf.HookError


def test_a_failure_that_passes_leaves_a_reward_and_no_sandbox(tmp_path):
    backend = world()
    env = harbor_env(make_tasks(tmp_path), Unlucky, backend=backend)
    output = only(evaluate(env, retries=2))
    assert (output["reward"], output["error"], seen(env)) == (1.0, None, 3)
    assert [sandbox.destroyed for sandbox in backend.sandboxes] == [True] * 3
    assert record_of(output).outcome == "pass"


def test_two_more_tries_are_what_jobs_have_too(tmp_path):
    env = harbor_env(make_tasks(tmp_path), Hopeless)
    output = only(env.evaluate_sync(echo, "gpt-4"))
    assert (output["reward"], output["error"]["kind"], seen(env)) == (None, "infrastructure", 3)
    assert vf.RunOptions().retries == 2


@pytest.mark.parametrize("kind", [Buggy, Unlucky])
def test_only_what_may_pass_is_tried_again(tmp_path, kind):
    env = harbor_env(make_tasks(tmp_path), kind)
    output = only(evaluate(env, retries=5))
    assert seen(env) == (1 if kind is Buggy else 3)
    assert (output["error"] is None) == (kind is Unlucky)


def test_fewer_retries_than_none_are_refused(tmp_path):
    with pytest.raises(vf.UsageError, match="retries is -1"):
        evaluate(harbor_env(make_tasks(tmp_path)), retries=-1)


def test_a_rollout_that_a_full_machine_spoiled_is_tried_again_and_at_last_alone(tmp_path):
    companies = []

    class Watched(vf.HarborEnv):
        async def post_rollout(self, state):
            companies.append(self._workplace(state).trial.spec.company)
            await super().post_rollout(state)

    gauge = FakeGauge()

    async def agent(_, __):
        gauge.found = shortage(passed=True)

    backend = world(agent, {REWARD_TXT: b"0"}, capabilities=replace(ALL_POWERFUL, state_folders=(tmp_path,)))
    env = harbor_env(make_tasks(tmp_path / "tasks"), Watched, backend=backend)

    async def run():
        on_watch(gauge)
        return await env.evaluate(echo, "gpt-4")

    output = only(asyncio.run(asyncio.wait_for(run(), 30)))
    assert output["error"]["error"] == HostExhaustedError.__name__
    assert companies == ["others", "others", "none"]


def test_rollouts_wait_for_the_memory_that_their_tasks_declare(tmp_path):
    env = harbor_env(make_tasks(tmp_path, toml="[environment]\nmemory_mb = 600\n"))
    spec = env.trial_spec(env.get_dataset()[0], "m")
    places = RolloutPlaces(LocalRows(env, RowPlan(echo, "m", {}), 2, Admission(2, 1000)))

    async def scenario():
        async with places.place(spec, frozenset()):
            second = asyncio.ensure_future(places.place(spec, frozenset()).__aenter__())
            await asyncio.sleep(0)
            waited = not second.done()
        await second
        return waited

    assert asyncio.run(scenario())


def test_what_the_environment_says_of_memory_goes_before_what_the_task_says(tmp_path):
    env = harbor_env(make_tasks(tmp_path, toml="[environment]\nmemory_mb = 600\n"), memory_gb=2)
    assert memory_of(env.trial_spec(env.get_dataset()[0], "m").task, env.trial_options) == 2048


def test_without_room_for_long_a_rollout_is_an_error_and_its_siblings_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(trial_rollouts, "USUAL_WAIT_SEC", 0.01)
    gauge = FakeGauge(shortage())

    async def run():
        on_watch(gauge)
        env = harbor_env(make_tasks(tmp_path, "a", "b"))
        with host_watch().guarding(tmp_path):
            return await env.evaluate(echo, "gpt-4")

    results = asyncio.run(asyncio.wait_for(run(), 30))
    assert [output["error"]["error"] for output in results["outputs"]] == ["HostExhaustedError"] * 2
