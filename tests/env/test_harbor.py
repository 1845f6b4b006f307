"""Abuse of HarborEnv: rollouts that break in every way beside siblings that do not notice, and no sandbox left."""

import asyncio
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import seatrial as vf
from seatrial.cli.main import run as seatrial
from seatrial.env.mcp import HarborMCPHealthcheck
from seatrial.env.sandboxes import WITHOUT_EFFECT, SandboxTimeouts
from seatrial.errors import SandboxError
from seatrial.gateway.calls import read_calls
from seatrial.testing.fake import FakeBackend, answer
from tests.conftest import sampled
from tests.env.worlds import (
    COLUMNS,
    COMMAND,
    REWARD_TXT,
    ask,
    cli_env,
    echo,
    evaluate,
    harbor_env,
    make_tasks,
    only,
    real_agent,
    record_of,
    world,
)
from tests.judged_tasks import judged_task
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
    sampled([BrokenSetup, BrokenImage, BrokenVariables, BrokenModel, BrokenAnswer, BrokenMachine, BrokenSandbox]),
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


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("exec 2>&1; echo begin; echo oops >&2; exit 3", "stdout ends with: begin\noops"),
        ("echo begin; echo oops >&2; exit 3", "stderr ends with: oops"),
        ("exit 3", "it wrote nothing"),
    ],
)
def test_what_a_crashed_agent_wrote_last_is_shown_wherever_it_went(desk, tmp_path, caplog, command, told):
    output = only(real(desk, make_tasks(tmp_path), command))
    assert told in caplog.text
    assert ("oops" in output["agent_stdout"] + output["agent_stderr"]) == ("oops" in command)


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


@pytest.mark.whole
def test_an_agent_that_outstays_its_turns_is_ended_and_judged(desk, tmp_path):
    work = "open('/app/answer.txt', 'w').write(ask('a')); ask('b'); import time; time.sleep(1000)"
    output = only(real(desk, make_tasks(tmp_path), real_agent(work), max_turns=1, timeout_seconds=3))
    assert (output["reward"], output["stop_condition"], output["agent_exit_code"]) == (1.0, "max_turns_reached", None)
    assert record_of(output).agent_result.status in ("killed", "timed_out")


def test_an_agent_that_never_ends_has_the_time_of_its_rollout(desk, tmp_path):
    output = only(real(desk, make_tasks(tmp_path), "echo right > /app/answer.txt; sleep 1000", timeout_seconds=0.5))
    assert (output["agent_timed_out"], output["reward"], output["error"]) == (True, 1.0, None)
    assert record_of(output).agent_result.status == "timed_out"


@pytest.mark.whole
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


@pytest.mark.whole
def test_a_backend_by_name_is_opened_for_the_evaluation_and_closed_after_it(tmp_path):
    env = vf.HarborEnv("echo right > /app/answer.txt", make_tasks(tmp_path), image="host")
    assert env.evaluate_sync(lambda messages: "x", "m")["metadata"]["avg_reward"] == 1.0
    assert env.evaluate_sync(lambda messages: "x", "m")["metadata"]["avg_reward"] == 1.0
    assert env._sandboxes.backend._kept == {}


DOCS = Path(__file__).parents[2] / "docs/harborenv.md"
OF_AGENTS: dict[str, Any] = {
    "interception_port": 8765,
    "interception_url": "https://tunnel.example",
    "max_turns": 10,
    "timeout_seconds": 300.0,
    "poll_interval": 5.0,
    "docker_image": "python:3.11-slim",
    "start_command": "tail -f /dev/null",
    "cpu_cores": 1,
    "memory_gb": 2,
    "disk_size_gb": 5,
    "gpu_count": 0,
    "timeout_minutes": 60,
    "environment_vars": {"A": "1"},
    "team_id": "team",
    "advanced_configs": object(),
    "labels": ["mine"],
    "max_retries": 5,
    "base_delay": 0.5,
    "backoff_factor": 2.0,
    "max_backoff_seconds": 30.0,
    "jitter": 1e-3,
    "sandbox_client_max_workers": 10,
    "sandbox_client_max_connections": 1000,
    "sandbox_client_max_keepalive_connections": 200,
    "sandbox_wait_for_creation_max_attempts": 120,
    "sandbox_creations_per_minute": 128,
    "timeouts": SandboxTimeouts(read_file=20),
    "keep_sandbox_for_scoring": True,
}
OF_TASKS: dict[str, Any] = {
    "mcp_launch_commands": {"files": "serve"},
    "mcp_healthcheck": HarborMCPHealthcheck(retries=2),
}


def test_every_argument_can_be_given_and_is_found_on_the_environment(tmp_path):
    given = {**OF_AGENTS, **OF_TASKS}
    env = harbor_env(make_tasks(tmp_path), **given)
    assert {name: getattr(env, name) for name in given} == given
    assert only(evaluate(env))["error"] is None


def test_an_agent_without_a_task_takes_all_of_its_own():
    assert only(evaluate(cli_env(**OF_AGENTS)))["error"] is None


def test_a_typo_is_refused_with_the_name_that_was_meant(tmp_path):
    folder = make_tasks(tmp_path)
    for wrong, meant in [
        ("mcp_launch_comands", "mcp_launch_commands"),
        ("keep_sandbox_for_score", "keep_sandbox_for_scoring"),
    ]:
        options: dict[str, Any] = {wrong: None}
        with pytest.raises(vf.UnknownArgumentError, match=f"did you mean {meant}"):
            harbor_env(folder, **options)


def test_the_page_names_every_argument_and_why_some_change_nothing():
    page = DOCS.read_text()
    assert [name for name in {**OF_AGENTS, **OF_TASKS} if f"`{name}`" not in page] == []
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for name, reason in WITHOUT_EFFECT.items():
        assert any(f"`{name}`" in row and reason in row for row in rows), name


def test_an_override_of_get_sandbox_resources_says_the_limits_of_a_rollout(tmp_path):
    class Large(vf.HarborEnv):
        def get_sandbox_resources(self, state):
            return {**super().get_sandbox_resources(state), "memory_gb": 2}

    backend = world()
    make_tasks(tmp_path, toml="[environment]\ncpus = 1\nmemory_mb = 100\n")
    only(evaluate(harbor_env(tmp_path, Large, backend=backend)))
    limits = backend.sandboxes[0].spec.limits
    assert (limits.cpus, limits.memory_mb) == (1, 2048)


@pytest.mark.parametrize(("resources", "message"), [({"gpu_count": 1}, "GPUs"), (None, "expected a table")])
def test_resources_that_cannot_be_had_are_an_error_of_the_rollout(tmp_path, resources, message):
    class Wrong(vf.HarborEnv):
        def get_sandbox_resources(self, state):
            return resources

    assert message in only(evaluate(harbor_env(make_tasks(tmp_path), Wrong)))["error"]["message"]


def test_an_override_of_create_sandbox_may_change_the_request():
    class Mine(vf.CliAgentEnv):
        async def create_sandbox(self, state, request):
            request.cpu_cores = 3
            return await super().create_sandbox(state, request)

    backend = world()
    only(evaluate(cli_env(kind=Mine, backend=backend)))
    assert backend.sandboxes[0].spec.limits.cpus == 3


def roll_out(desk: Desk, env: vf.HarborEnv) -> Any:
    """The one output of an environment with real sandboxes."""
    return only(desk.wait(env.evaluate(echo, "gpt-4", state_columns=COLUMNS, retries=0)))


ORDER = [
    *("get_docker_image", "get_sandbox_resources", "create_sandbox", "build_env_vars", "post_sandbox_setup"),
    *("prepare_harbor_task", "pre_mcp_setup", "start_mcp_servers", "start_agent", "normalize_intercepted_messages"),
    *("normalize_intercepted_tools", "normalize_response", "stop_mcp_servers", "compute_reward", "upload_test_assets"),
]


def noting(calls: list[str]) -> type[vf.HarborEnv]:
    """An environment that overrides each hook once, and notes it."""

    def override(name: str) -> Any:
        def hook(self: Any, *args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return getattr(super(kind, self), name)(*args, **kwargs)

        return hook

    def with_names(name: str, hook: Any) -> Any:
        """The parameters of the original: hooks get what they name."""
        hook.__wrapped__ = getattr(vf.HarborEnv, name)
        return hook

    kind = type("Noting", (vf.HarborEnv,), {name: with_names(name, override(name)) for name in ORDER})
    return kind


async def with_tools(spec, sandbox):
    await ask(spec, "hello", tools=[{"type": "function", "function": {"name": "f"}}])


def test_each_hook_is_called_once_in_the_order_of_verifiers(tmp_path):
    calls: list[str] = []
    env = harbor_env(make_tasks(tmp_path), noting(calls), backend=world(with_tools))
    assert only(evaluate(env))["reward"] == 1.0
    assert calls == ORDER


def test_hooks_of_the_first_releases_get_the_client_too(tmp_path):
    class Old(vf.HarborEnv):
        async def post_sandbox_setup(self, state, sandbox_client):  # type: ignore[override]
            await super().post_sandbox_setup(state, sandbox_client)  # type: ignore[call-arg]
            await sandbox_client.upload_content(state["sandbox_id"], "x", "/app/agent.py")

        async def prepare_harbor_task(self, sandbox_client, sandbox_id, task_dir):  # type: ignore[override]
            await super().prepare_harbor_task(sandbox_client, sandbox_id, task_dir)  # type: ignore[call-arg]

        async def start_agent(self, state, sandbox_client):  # type: ignore[override]
            await super().start_agent(state, sandbox_client)  # type: ignore[call-arg]

    backend = world()
    assert only(evaluate(harbor_env(make_tasks(tmp_path), Old, backend=backend)))["error"] is None
    assert backend.sandboxes[0].files["/app/agent.py"] == b"x"


class Uploading(vf.HarborEnv):
    """Lays out more than the tests."""

    async def upload_test_assets(self, sandbox_id, task_dir):
        await super().upload_test_assets(sandbox_id, task_dir)
        await self.sandbox_client.upload_content(sandbox_id, task_dir.name, "/tests/more.txt")


def test_what_upload_test_assets_lays_out_is_there_for_the_verifier_alone(desk: Desk, tmp_path):
    test = '[ "$(cat /tests/more.txt)" = task_1 ] && echo 1 > /logs/verifier/reward.txt\n'
    folder = make_tasks(tmp_path, files={"tests/test.sh": test})
    agent = "ls /tests /logs/verifier > /app/seen 2>&1; test ! -e /tests"
    output = roll_out(desk, harbor_env(folder, Uploading, backend=desk.backend, run_command=agent))
    assert (output["reward"], output["agent_exit_code"]) == (1.0, 0)
    assert "note: upload_test_assets of Uploading laid out the tests" in output["evaluation"].validity.errors
    plain = roll_out(desk, harbor_env(folder, backend=desk.backend, run_command=agent))
    assert plain["reward"] == 0.0
    assert record_of(plain).provenance.tests_digest != record_of(output).provenance.tests_digest


def test_tests_cannot_be_laid_out_while_the_agent_may_act(tmp_path):
    class Early(vf.HarborEnv):
        async def post_sandbox_setup(self, state):
            await super().post_sandbox_setup(state)
            await self.upload_test_assets(state["sandbox_id"], Path(state["harbor_task_dir"]))

    output = only(evaluate(harbor_env(make_tasks(tmp_path), Early)))
    assert "after the agent has ended" in output["error"]["message"]


def test_an_override_of_compute_reward_may_run_the_tests_itself(desk: Desk, tmp_path):
    class Own(vf.HarborEnv):
        async def compute_reward(self, state):
            await self.upload_test_assets(state["sandbox_id"], Path(state["harbor_task_dir"]))
            ended = await self.run_background_job(state, "sh test.sh", timeout=60, working_dir="/tests")
            assert ended.exit_code == 0, ended.stderr
            return float(await self.read_file(state["sandbox_id"], REWARD_TXT) or 0.0) / 2

    test = "cmp /oracle/answer.txt /app/answer.txt && echo 1 > /logs/verifier/reward.txt\n"
    folder = make_tasks(tmp_path, files={"tests/test.sh": test, "solution/answer.txt": "right\n"})
    run_command = "mkdir /oracle; echo right > /app/answer.txt"
    env = harbor_env(folder, Own, backend=desk.backend, run_command=run_command, layout="verifiers")
    assert roll_out(desk, env)["reward"] == 0.5


def test_a_hook_of_verifiers_lays_out_the_oracle_itself(desk: Desk, tmp_path):
    class Own(vf.HarborEnv):
        async def upload_test_assets(self, sandbox_id, task_dir):
            await self.sandbox_client.upload_file(sandbox_id, "/tests/test.sh", task_dir / "tests/test.sh")
            await self.sandbox_client.upload_file(sandbox_id, "/oracle/answer.txt", task_dir / "solution/answer.txt")

    test = "cmp -s /oracle/answer.txt /app/answer.txt && echo 1 > /logs/verifier/reward.txt\n"
    folder = make_tasks(tmp_path, files={"tests/test.sh": test, "solution/answer.txt": "right\n"})
    run_command = "mkdir /oracle; echo wrong > /oracle/answer.txt; echo right > /app/answer.txt"
    env = harbor_env(folder, Own, backend=desk.backend, run_command=run_command, layout="verifiers")
    output = roll_out(desk, env)
    assert (output["reward"], output["error"]) == (1.0, None)


def test_hooks_read_the_logs_of_the_verifier_after_it_has_judged(desk: Desk, tmp_path):
    read: list[str | None] = []

    class Reading(vf.HarborEnv):
        async def compute_reward(self, state):
            reward = await super().compute_reward(state)
            shown = await self.sandbox_client.execute_command(state["sandbox_id"], f"cat {REWARD_TXT} {REWARD_TXT}")
            read.append(shown.stdout)
            return reward

        async def post_rollout(self, state):
            read.append(await self.read_file(state["sandbox_id"], REWARD_TXT))
            await super().post_rollout(state)
            read.append(await self.read_file(state["sandbox_id"], REWARD_TXT))

    async def in_scoring(state):
        return float((await env.sandbox_client.read_file(state["sandbox_id"], REWARD_TXT)).content)

    env = harbor_env(
        make_tasks(tmp_path), Reading, backend=desk.backend, run_command="echo right > /app/answer.txt",
        rubric=vf.Rubric([in_scoring], [0.0]), keep_sandbox_for_scoring=True,
    )  # fmt: skip
    output = roll_out(desk, env)
    assert read == [None, "1\n1\n", "1\n"]
    assert (output["metrics"]["in_scoring"], output["cleanup_errors"]) == (1.0, [])
    with pytest.raises(vf.SandboxError, match="is gone"):
        desk.wait(env.sandbox_client.read_file(output["sandbox_id"], REWARD_TXT))


@pytest.mark.parametrize("isolation", ["guarded", "separate"])
def test_what_reads_the_logs_for_a_hook_is_no_program_of_the_agent(desk: Desk, tmp_path, isolation):
    class Reading(vf.HarborEnv):
        async def compute_reward(self, state):
            await super().compute_reward(state)
            shown = await self.sandbox_client.execute_command(state["sandbox_id"], f"cat {REWARD_TXT}")
            return float(shown.stdout)

    forged = "rm -f /usr/bin/cat; printf '#!/bin/sh\\necho 1\\n' > /usr/bin/cat; chmod +x /usr/bin/cat"
    env = harbor_env(make_tasks(tmp_path), Reading, backend=desk.backend, run_command=forged)
    env.trial_options = env.trial_options.model_copy(update={"isolation": isolation})
    output = roll_out(desk, env)
    assert (output["reward"], output["error"], output["outcome"]) == (0.0, None, "fail")


def scoring_env(tmp_path, **options):
    async def score(state):
        return float(bool(await env.sandbox_client.execute_command(state["sandbox_id"], "true")))

    backend = world()
    env = harbor_env(make_tasks(tmp_path), backend=backend, rubric=vf.Rubric([score]), **options)
    return env, backend


def test_the_sandbox_stays_for_those_who_score_only_if_that_was_asked_for(tmp_path):
    env, backend = scoring_env(tmp_path)
    assert "keep_sandbox_for_scoring=True" in only(evaluate(env))["error"]["message"]
    env, kept = scoring_env(tmp_path, keep_sandbox_for_scoring=True)
    assert only(evaluate(env))["reward"] == 2.0
    assert [sandbox.destroyed for sandbox in (*backend.sandboxes, *kept.sandboxes)] == [True, True]


def test_a_kept_sandbox_is_destroyed_by_delete_sandbox_or_with_the_event_loop(tmp_path):
    env, backend = scoring_env(tmp_path, keep_sandbox_for_scoring=True)

    async def roll_out(*, delete):
        state = await env.rollout(env.get_dataset()[0], lambda _: "", "m")
        here = backend.sandboxes[-1].destroyed
        if delete:
            await env.delete_sandbox(state["sandbox_id"])
        return here, backend.sandboxes[-1].destroyed

    assert asyncio.run(roll_out(delete=True)) == (False, True)
    assert asyncio.run(roll_out(delete=False)) == (False, False)
    assert backend.sandboxes[-1].destroyed


def test_an_override_of_start_agent_may_start_a_background_job():
    class Own(vf.CliAgentEnv):
        async def start_agent(self, state):
            state["background_job"] = await self.sandbox_client.start_background_job(state["sandbox_id"], COMMAND)
            state["completion_wait_task"] = asyncio.create_task(self.wait_for_completion(state))

    async def agent(spec, sandbox):
        await ask(spec, "hello")
        return answer("done", exit_code=4)

    output = only(evaluate(cli_env(agent, Own)))
    assert (output["error"], output["agent_exit_code"], output["agent_stdout"]) == (None, 4, "done")
    assert len(output["trajectory"]) == 1


def test_an_override_of_check_agent_completed_ends_a_rollout_whose_agent_runs_on():
    class Enough(vf.CliAgentEnv):
        async def check_agent_completed(self, state):
            return len(state["trajectory"]) > 0

    async def agent(spec, sandbox):
        await ask(spec, "hello")
        await asyncio.Event().wait()

    output = only(evaluate(cli_env(agent, Enough, poll_interval=0.01, timeout_seconds=50.0)))
    assert (output["error"], output["stop_condition"], output["agent_timed_out"]) == (None, "agent_completed", False)


def test_what_the_model_and_the_trajectory_get_is_what_the_hooks_make_of_it():
    class Normal(vf.CliAgentEnv):
        async def normalize_intercepted_messages(self, intercepted_messages):
            return [{"role": "system", "content": "Be brief."}, *intercepted_messages]

        def normalize_intercepted_tools(self, intercept_tools):
            return [*intercept_tools, {"type": "function", "function": {"name": "g"}}]

        async def normalize_response(self, response):
            return f"{response.message['content']}!"

    heard: list[str] = []

    async def agent(spec, sandbox):
        _, body = await ask(spec, "hello", tools=[{"type": "function", "function": {"name": "f"}}])
        heard.append(body["choices"][0]["message"]["content"])

    output = only(evaluate(cli_env(agent, Normal)))
    (turn,) = output["trajectory"]
    assert [message["content"] for message in turn["prompt"]] == ["Be brief.", "hello"]
    assert (heard, turn["completion"][0]["content"]) == (["you said hello"], "you said hello!")


DOCKERFILE = {"environment/Dockerfile": "FROM python:3.11-slim\nRUN echo built > /built\nWORKDIR /srv\n"}
JUDGE = {"tests/test.sh": f"#!/bin/sh\ngrep -qx built /built && echo 1 > {REWARD_TXT}\n"}


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A store of images that is gone after the test."""
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))


def test_a_task_with_a_dockerfile_and_no_image_is_built_from_it(desk, tmp_path, cache):
    folder = make_tasks(tmp_path / "tasks", files={**DOCKERFILE, **JUDGE})
    env = vf.HarborEnv("cat /built; pwd", folder, backend=desk.backend, image_map={"python:*": "host"})
    output = only(desk.wait(env.evaluate(lambda messages: "x", "m", state_columns=COLUMNS)))
    assert (output["error"], output["agent_stdout"], output["reward"]) == (None, "built\n/app\n", 1.0)
    assert output["docker_image"].endswith("environment/Dockerfile")
    assert output["image_used"] != "host"


def test_where_nothing_is_built_such_a_task_is_an_error_unless_it_may_run_elsewhere(tmp_path):
    folder = make_tasks(tmp_path, files=DOCKERFILE)
    assert "builds no images" in only(evaluate(harbor_env(folder, image="auto")))["error"]["message"]
    assert only(evaluate(harbor_env(folder, image="host")))["reward"] == 1.0


def test_an_image_that_a_hook_chooses_goes_before_the_dockerfile(tmp_path):
    class Chosen(vf.HarborEnv):
        async def get_docker_image(self, state):
            return "host"

    output = only(evaluate(harbor_env(make_tasks(tmp_path, files=DOCKERFILE), Chosen, image="auto")))
    assert (output["docker_image"], output["image_used"], output["error"]) == ("host", "host", None)


@pytest.mark.parametrize("name", ["host", "/etc"])
def test_a_folder_is_for_the_program_to_name_and_not_for_a_task(tmp_path, name):
    toml = f'[environment]\ndocker_image = "{name}"\n'
    output = only(evaluate(harbor_env(make_tasks(tmp_path / "a", toml=toml), image="auto")))
    assert f"{name!r} is" in output["error"]["message"]
    assert "no task may name" in output["error"]["message"]
    allowed = only(evaluate(harbor_env(make_tasks(tmp_path / "b", toml=toml), image="auto", docker_image=name)))
    default = only(evaluate(harbor_env(make_tasks(tmp_path / "c"), image="auto", docker_image=name)))
    assert [(each["error"], each["image_used"]) for each in (allowed, default)] == [(None, name)] * 2


@pytest.mark.whole
def test_an_image_that_cannot_be_fetched_is_an_error_of_the_rollout(desk, tmp_path, cache):
    env = vf.HarborEnv("true", make_tasks(tmp_path / "tasks"), backend=desk.backend, docker_image="nobody/none:7")
    output = only(desk.wait(env.evaluate(lambda messages: "x", "m", state_columns=COLUMNS)))
    assert (output["reward"], output["error"]["kind"]) == (None, "infrastructure")
    assert "nobody/none:7" in output["error"]["message"]
    assert record_of(output).outcome == "infrastructure_error"


async def agent(spec, sandbox):
    await ask(spec, "hello")


def run(tmp_path, *, backend=None, names=("a", "b"), **options):
    folder = make_tasks(tmp_path / "tasks", *names)
    env = harbor_env(folder, backend=backend or world(agent))
    return evaluate(env, save_to=tmp_path / "job", **options)


def test_each_rollout_is_a_trial_with_its_files(tmp_path):
    run(tmp_path, rollouts_per_example=2)
    store = vf.JobStore.open(tmp_path / "job")
    assert sorted(store.finished()) == ["a.command.1", "a.command.2", "b.command.1", "b.command.2"]
    record = store.record("a.command.2")
    assert (record.outcome, record.attempt, record.job, record.agent.model) == ("pass", 2, "job", "gpt-4")
    assert record.task.digest == vf.digest_folder(tmp_path / "tasks/a")
    folder = store.trial_folder("a.command.2")
    (call,) = read_calls(folder / "calls.jsonl")
    assert (folder / "agent/trajectory.json").is_file()
    assert (call.upstream_model, call.messages) == ("gpt-4", [{"role": "user", "content": "hello"}])
    assert (folder / "agent/stdout.txt").exists()
    assert (folder / "verifier/stdout.txt").read_text() == "judged"


def test_costs_are_by_the_prices_that_the_environment_is_given(tmp_path):
    prices = tmp_path / "mine.toml"
    prices.write_text('[models]\n"gpt-4" = { input = 1e6, output = 0 }\n')
    env = harbor_env(make_tasks(tmp_path / "tasks", "a"), backend=world(agent), prices=prices)
    evaluate(env, save_to=tmp_path / "job")
    store = vf.JobStore.open(tmp_path / "job")
    used = store.record("a.command.1").model_usage
    assert used is not None
    assert used.cost_usd == used.input_tokens > 0
    assert (used.prices or "").startswith("mine.toml, Seatrial ")
    assert store.file.spec.model.prices == str(prices)
    with pytest.raises(vf.UsageError, match=r"none\.toml cannot be read"):
        harbor_env(tmp_path / "tasks", prices=tmp_path / "none.toml")


def test_what_has_a_result_is_not_run_again_and_what_the_machine_failed_is(tmp_path):
    broken = world(fail_on={"changes": SandboxError("gone")})
    failed = run(tmp_path, backend=broken)
    assert [output["reward"] for output in failed["outputs"]] == [None, None]
    again = world(agent)
    resumed = run(tmp_path, backend=again, resume=True)
    assert [output["reward"] for output in resumed["outputs"]] == [1.0, 1.0]
    assert len(again.sandboxes) == 2
    nothing = world(agent)
    assert run(tmp_path, backend=nothing, resume=True)["metadata"]["avg_reward"] == 1.0
    assert nothing.sandboxes == []


def test_rollouts_of_a_newer_version_are_left_alone(tmp_path):
    run(tmp_path)
    record = next((tmp_path / "job" / "trials").iterdir()) / "record.json"
    newer = record.read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2')
    record.write_bytes(newer)
    again = world(agent)
    with pytest.raises(vf.JobError, match=r"has version 2.*install a newer one; or save to another folder"):
        run(tmp_path, backend=again, resume=True)
    assert (again.sandboxes, record.read_bytes()) == ([], newer)


def test_an_evaluation_that_is_another_one_is_not_gone_on_with(tmp_path):
    run(tmp_path, sampling_args={"temperature": 0.5})
    with pytest.raises(vf.JobError, match="not the same evaluation"):
        run(tmp_path, sampling_args={"temperature": 1.0}, resume=True)
    (tmp_path / "tasks/a/instruction.md").write_text("Do something else.\n")
    with pytest.raises(vf.JobError, match="not the same evaluation"):
        evaluate(harbor_env(tmp_path / "tasks"), save_to=tmp_path / "job", resume=True)


def test_sampling_that_makes_no_sense_is_an_error_before_anything_starts(tmp_path):
    with pytest.raises(vf.UsageError, match="sampling_args: top_p"):
        run(tmp_path, sampling_args={"top_p": 7})


def test_a_row_without_a_task_is_an_error_of_its_rollout_alone(tmp_path):
    env = harbor_env(
        make_tasks(tmp_path),
        dataset=[{"prompt": "x", "info": info} for info in ({}, {"task_dir": 7}, "[]")]
        + [{"prompt": "x"}, {"prompt": "x", "info": json.dumps({"task_dir": str(tmp_path / "task_1")})}],
    )
    results = evaluate(env)
    *broken, whole = results["outputs"]
    assert [output["error"]["error"] for output in broken] == ["UsageError"] * 4
    assert whole["error"] is None
    assert results["metadata"]["avg_reward"] == 1.0
    with pytest.raises(vf.UsageError, match="task_dir"):
        evaluate(env, save_to=tmp_path / "job")
    assert not (tmp_path / "job").exists()


async def crash(_, __):
    return answer(exit_code=3, stderr="Traceback\nKeyError: 'MODEL'\n")


def test_an_agent_that_crashes_is_told_of_in_the_log_and_the_results(tmp_path, caplog):
    (output,) = run(tmp_path, backend=world(crash), names=("a",))["outputs"]
    assert (output["agent_exit_code"], output["agent_timed_out"]) == (3, False)
    assert output["agent_stderr"].endswith("KeyError: 'MODEL'\n")
    assert "rollout of a: the agent ended with exit code 3" in caplog.text
    assert "KeyError: 'MODEL'" in caplog.text


@pytest.mark.parametrize(("verdict", "mean"), [(b"0.25", 0.25), (b"", None)], ids=["judged", "no verdict"])
def test_one_folder_has_one_mean(tmp_path, capsys, verdict, mean):
    """A verifier without a verdict is not in it, neither here nor there."""
    metadata = run(tmp_path, backend=world(agent, {REWARD_TXT: verdict}))["metadata"]
    assert seatrial(["show", str(tmp_path / "job"), "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["summary"]["total"]
    assert metadata["avg_reward"] == total["mean"] == mean
    assert (metadata["scored"], metadata["invalid"]) == (total["scored"], total["invalid"])


def test_verifiers_that_ask_a_model_find_it_in_rollouts_too(desk, tmp_path):
    judged_task(tmp_path / "tasks/one")
    script = tmp_path / "judge.jsonl"
    script.write_text('"yes"\n')
    command = "env > /app/env.txt; echo right > /app/answer.txt"
    judge: dict[str, Any] = {"verifier_upstream": f"scripted:{script}", "verifier_models": {"judge-1": "judge-2"}}
    output = only(real(desk, tmp_path / "tasks", command, **judge))
    assert output["reward"] == 1.0
    record = record_of(output)
    assert record.verifier_usage.calls == 1
    assert record.verifier_run.models == {"judge-1": "judge-2"}


def test_what_cannot_be_asked_is_refused_when_the_environment_is_made(tmp_path):
    judged_task(tmp_path / "tasks/one")
    with pytest.raises(vf.UsageError, match="--verifier-upstream"):
        vf.HarborEnv("true", tmp_path / "tasks", verifier_models={"a": "b"})
