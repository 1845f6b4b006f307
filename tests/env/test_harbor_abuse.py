"""Abuse of HarborEnv: rollouts that break in every way beside siblings that do not notice, and no sandbox left."""

import asyncio
import os
from collections import Counter

import pytest

import seatrial as vf
from seatrial.errors import SandboxError
from seatrial.testing.fake import FakeBackend, answer
from tests.env.worlds import (
    COLUMNS,
    REWARD_TXT,
    ask,
    evaluate,
    harbor_env,
    make_tasks,
    only,
    real_agent,
    record_of,
    world,
)
from tests.trial.support import Desk

ROLLOUTS, BROKEN = 24, 4


def broken(state):
    return state["example_id"] < BROKEN


class BrokenSetup(vf.HarborEnv):
    async def post_sandbox_setup(self, state):
        await super().post_sandbox_setup(state)
        if broken(state):
            raise RuntimeError("no wheel for this platform")


class BrokenImage(vf.HarborEnv):
    async def get_docker_image(self, state):
        return "nowhere/to/be:had" if broken(state) else "host"


class BrokenVariables(vf.HarborEnv):
    async def build_env_vars(self, state):
        if broken(state):
            raise KeyError("no such key")
        return await super().build_env_vars(state)


class BrokenModel(vf.HarborEnv):
    async def get_model_response(self, state, prompt, *args, **kwargs):
        return await super().get_model_response(state, prompt) if not broken(state) else 1 / 0


class BrokenAnswer(vf.HarborEnv):
    async def get_model_response(self, state, prompt, *args, **kwargs):
        return {"choices": []} if broken(state) else "fine"


class BrokenMachine(vf.HarborEnv):
    async def compute_reward(self, state):
        if broken(state):
            raise SandboxError("the machine has lost power")
        return await super().compute_reward(state)


class BrokenSandbox(vf.HarborEnv):
    async def post_sandbox_setup(self, state):
        if broken(state):
            await self.sandbox_client.execute_command("no-such-sandbox", "true")
        await super().post_sandbox_setup(state)


async def asking(spec, sandbox):
    await ask(spec, "hello")


@pytest.mark.parametrize(
    "kind",
    [BrokenSetup, BrokenImage, BrokenVariables, BrokenModel, BrokenAnswer, BrokenMachine, BrokenSandbox],
)
def test_of_many_rollouts_some_break_and_their_siblings_do_not_notice(tmp_path, kind):
    backend = world(asking)
    folder = make_tasks(tmp_path, *(f"task_{number:02}" for number in range(ROLLOUTS)))
    results = evaluate(harbor_env(folder, kind, backend=backend, image="auto"))
    metadata = results["metadata"]
    assert (metadata["avg_reward"], metadata["planned"], metadata["scored"]) == (1.0, ROLLOUTS, ROLLOUTS - BROKEN)
    assert (metadata["errors"], metadata["unscored"]) == (BROKEN, BROKEN)
    assert Counter(output["reward"] for output in results["outputs"]) == {1.0: ROLLOUTS - BROKEN, None: BROKEN}
    assert all((output["error"] is not None) == (output["example_id"] < BROKEN) for output in results["outputs"])
    outcomes = Counter(record_of(output).outcome for output in results["outputs"])
    assert outcomes == {"pass": ROLLOUTS - BROKEN, "infrastructure_error": BROKEN}
    assert all(sandbox.destroyed for sandbox in backend.sandboxes)


def test_rewards_that_are_none_are_of_their_own_rollouts_and_in_no_mean(tmp_path):
    def verdicts():
        async def run(spec, sandbox):
            if spec.phase == "verifier":
                bad = b"task_0" in sandbox.files["/task/task.toml"]
                sandbox.files[REWARD_TXT] = b"excellent" if bad else b"1"
            return answer()

        return FakeBackend(run)

    for number in range(16):
        make_tasks(tmp_path, f"task_{number:02}", toml=f'[metadata]\nname = "task_{number:02}"\n')
    results = evaluate(harbor_env(tmp_path, backend=verdicts()))
    assert (results["metadata"]["avg_reward"], results["metadata"]["scored"]) == (1.0, 6)
    assert Counter(output["reward"] for output in results["outputs"]) == {1.0: 6, 0.0: 10}
    assert Counter(record_of(output).outcome for output in results["outputs"]) == {
        "pass": 6,
        "verifier_error": 10,
    }


def processes_of(desk: Desk) -> int:
    """How many sandboxes the backend still has."""
    return len(desk.backend._sandboxes)  # type: ignore[attr-defined]


def real(desk, folder, command, kind=vf.HarborEnv, client=None, **options):
    env = kind(command, folder, backend=desk.backend, image="host", **options)
    return desk.wait(env.evaluate(client or (lambda messages: "right"), "m", state_columns=COLUMNS))


def test_an_agent_that_exits_7_is_judged_by_what_it_did(desk, tmp_path):
    output = only(real(desk, make_tasks(tmp_path), "echo right > /app/answer.txt; echo oops >&2; exit 7"))
    assert (output["agent_exit_code"], output["agent_stderr"], output["reward"]) == (7, "oops\n", 1.0)
    assert record_of(output).agent_result.exit_code == 7


def test_an_agent_that_is_not_there_is_judged_too(desk, tmp_path):
    output = only(real(desk, make_tasks(tmp_path), "/no/such/agent"))
    assert (output["agent_exit_code"], output["reward"], output["error"]) == (127, 0.0, None)


def test_an_agent_that_calls_the_responses_api_is_answered(desk, tmp_path):
    body = """
    data = json.dumps({"model": "m", "input": "what?"}).encode()
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "content-type": "application/json"}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", data, headers)
    said = json.load(urllib.request.urlopen(request))
    open("/app/answer.txt", "w").write(said["output"][0]["content"][0]["text"])
    """
    output = only(real(desk, make_tasks(tmp_path), real_agent(body)))
    assert (output["reward"], len(output["trajectory"])) == (1.0, 1)


def test_an_agent_that_outstays_its_turns_is_ended_and_judged(desk, tmp_path):
    work = "open('/app/answer.txt', 'w').write(ask('a')); ask('b'); import time; time.sleep(1000)"
    output = only(real(desk, make_tasks(tmp_path), real_agent(work), max_turns=1, timeout_seconds=3))
    assert (output["reward"], output["stop_condition"], output["agent_exit_code"]) == (1.0, "max_turns_reached", None)
    assert record_of(output).agent_result.status in ("killed", "timed_out")


def test_an_agent_that_never_ends_has_the_time_of_its_rollout(desk, tmp_path):
    output = only(real(desk, make_tasks(tmp_path), "echo right > /app/answer.txt; sleep 1000", timeout_seconds=0.5))
    assert (output["agent_timed_out"], output["reward"], output["error"]) == (True, 1.0, None)
    assert record_of(output).agent_result.status == "timed_out"


def test_nothing_is_left_of_many_rollouts_of_which_some_break(desk, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    class Breaking(vf.HarborEnv):
        async def post_sandbox_setup(self, state):
            await super().post_sandbox_setup(state)
            if state["example_id"] % 3 == 0:
                await self.sandbox_client.start_background_job(state["sandbox_id"], "sleep 1000")
                raise RuntimeError("broken")

    folder = make_tasks(tmp_path / "tasks", *(f"t{number}" for number in range(6)))
    results = real(desk, folder, "echo right > /app/answer.txt", Breaking)
    assert Counter(output["reward"] for output in results["outputs"]) == {1.0: 4, None: 2}
    assert os.listdir(tmp_path) == ["tasks"]
    assert processes_of(desk) == 0


def test_rollouts_that_are_cancelled_leave_no_sandbox(desk, tmp_path):
    async def run():
        started = asyncio.Event()

        class Watched(vf.HarborEnv):
            async def start_agent(self, state):
                await super().start_agent(state)
                started.set()

        env = Watched("sleep 1000", make_tasks(tmp_path), backend=desk.backend, image="host")
        task = asyncio.create_task(env.evaluate(lambda messages: "x", "m"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    desk.wait(run())
    assert processes_of(desk) == 0


def test_a_backend_by_name_is_opened_for_the_evaluation_and_closed_after_it(tmp_path):
    env = vf.HarborEnv("echo right > /app/answer.txt", make_tasks(tmp_path), image="host")
    assert env.evaluate_sync(lambda messages: "x", "m")["metadata"]["avg_reward"] == 1.0
    assert env.evaluate_sync(lambda messages: "x", "m")["metadata"]["avg_reward"] == 1.0
    assert env._sandboxes._backend._kept == {}
