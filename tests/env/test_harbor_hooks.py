"""The hooks that subclasses of verifiers' HarborEnv override: in which order they come, and what they can reach."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import seatrial as vf
from seatrial.testing.fake import answer
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
    record_of,
    world,
)
from tests.trial.support import Desk


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
