"""SandboxMixin: sandboxes for environments that are no CliAgentEnv, and what hooks of all of them call."""

import asyncio
from typing import Any

import pytest

import seatrial as vf
from seatrial.env.sandbox_client import SandboxRequest
from seatrial.env.sandbox_mixin import SandboxMixin
from tests.env.worlds import evaluate, only, world


class OwnEnv(SandboxMixin, vf.MultiTurnEnv):
    """An environment that makes its sandboxes itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(dataset=[{"prompt": "Do it."}], max_turns=1)
        self.init_sandbox_client(image="host", **settings)

    async def setup_state(self, state):
        await self.create_sandbox(state, SandboxRequest("mine", cpu_cores=2, environment_vars={"A": "1"}))

    async def post_sandbox_setup(self, state):
        await self.upload_bundle(state["sandbox_id"], {"a/b.txt": "text", "c": b"bytes"}, "/srv")

    async def post_rollout(self, state):
        ran = await self.run_background_job(state, "look", timeout=10)
        state["answer"] = [ran.stdout, await self.read_file(state["sandbox_id"], "/srv/a/b.txt")]
        state["answer"].append(await self.read_file(state["sandbox_id"], "/nowhere"))

    @vf.cleanup
    async def clean(self, state):
        await self.delete_sandbox(state["sandbox_id"])


def test_an_environment_makes_and_destroys_its_own_sandboxes():
    backend = world()
    output = only(evaluate(OwnEnv(backend=backend)))
    assert (output["error"], output["cleanup_errors"]) == (None, [])
    assert output["answer"] == ["look", "text", None]
    (sandbox,) = backend.sandboxes
    assert (sandbox.destroyed, sandbox.spec.limits.cpus) == (True, 2)
    assert sandbox.executed[0].env == {"A": "1"}


@pytest.mark.parametrize("how", ["teardown", "loop"])
def test_sandboxes_that_are_left_are_destroyed_with_the_environment_or_the_loop(how):
    backend = world()
    env = OwnEnv(backend=backend)

    async def leave():
        state = vf.State()
        await env.create_sandbox(state, SandboxRequest())
        if how == "teardown":
            await env.teardown()
            assert backend.sandboxes[0].destroyed

    asyncio.run(leave())
    assert backend.sandboxes[0].destroyed


def test_a_job_that_takes_too_long_is_an_error():
    async def hang(spec, sandbox):
        await asyncio.Event().wait()

    env = OwnEnv(backend=world(hang))

    async def run():
        state = vf.State()
        await env.create_sandbox(state, SandboxRequest())
        with pytest.raises(vf.SandboxError, match=r"did not end within 0\.01 s"):
            await env.run_background_job(state, "run the agent", timeout=0.01)

    asyncio.run(run())


def test_with_retry_calls_again_as_often_as_it_may():
    env = OwnEnv(backend=world(), max_retries=2, base_delay=0.0, jitter=0.0)
    calls: list[int] = []

    async def fails(least):
        calls.append(1)
        if len(calls) < least:
            raise OSError("not yet")
        return len(calls)

    assert asyncio.run(env.with_retry(fails)(3)) == 3
    calls.clear()
    with pytest.raises(OSError, match="not yet"):
        asyncio.run(env.with_retry(fails)(4))
    assert len(calls) == 3


def test_a_request_for_what_no_sandbox_has_is_refused():
    env = OwnEnv(backend=world())
    with pytest.raises(vf.HostUnsupportedError, match="GPUs"):
        asyncio.run(env.create_sandbox(vf.State(), SandboxRequest(gpu_count=1)))
