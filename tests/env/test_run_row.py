"""A row is rolled out where its environment was sent: here, or in another process that has nothing of this one."""

import asyncio
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from threading import Lock

import pytest

import seatrial as vf
from seatrial.env.rollout import RolloutPlace
from seatrial.env.run_row import RowPlan, RowResult, run_row
from tests.env.games import ROWS, Guessing, counting
from tests.env.worlds import cli_env, echo, harbor_env, make_tasks, real_agent, world


class Own(vf.HarborEnv):
    """With a hook that reaches its sandbox."""

    async def post_sandbox_setup(self, state):
        await super().post_sandbox_setup(state)
        await self.sandbox_client.upload_content(state["sandbox_id"], "right", "/app/answer.txt")


def run_sent(sent: bytes) -> bytes:
    """What the other process does with an environment, a row and a plan."""
    return pickle.dumps(asyncio.run(run_row(*pickle.loads(sent))))  # noqa: S301 - our own


def elsewhere(environment, row, plan) -> RowResult:
    """The result of a row that was rolled out in a process that was started anew."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        sent = pickle.dumps((environment, row, plan))
        result: RowResult = pickle.loads(pool.submit(run_sent, sent).result(60))  # noqa: S301 - our own
    return result


def test_a_trial_is_rolled_out_in_another_process(tmp_path):
    env = Own(real_agent("ask('What shall I write?')"), make_tasks(tmp_path / "tasks"), image="host")
    (row,) = env.get_dataset()
    here = replace(env.trial_spec(row, "gpt-4"), trial_id="task_1.command.1", job="nightly", company="none")
    folder = tmp_path / "trial"
    folder.mkdir()
    result = elsewhere(env, row, RowPlan(echo, "gpt-4", {}, ("harbor_task_dir",), RolloutPlace(here, folder)))
    assert (result.output["error"], result.output["reward"], result.output["outcome"]) == (None, 1.0, "pass")
    assert result.output["completion"] == [{"role": "assistant", "content": "you said What shall I write?"}]
    assert result.output["trajectory"][0]["prompt"] == [{"role": "user", "content": "What shall I write?"}]
    assert result.record is not None
    assert (result.record.trial_id, result.record.job) == ("task_1.command.1", "nightly")
    assert (folder / "calls.jsonl").exists()
    assert (folder / "agent/stdout.txt").exists()


def test_the_task_is_where_the_place_says(tmp_path):
    env = harbor_env(make_tasks(tmp_path / "tasks"))
    (row,) = env.get_dataset()
    spec = env.trial_spec(row, "m")
    moved = (tmp_path / "tasks/task_1").rename(tmp_path / "moved")
    layout = harbor_env(tmp_path / "moved").trial_spec({**row, "info": {"task_dir": str(moved)}}, "m").task.layout
    task = spec.task.model_copy(update={"root": moved, "layout": layout})
    place = RolloutPlace(replace(spec, task=task), tmp_path)
    result = asyncio.run(run_row(env, row, RowPlan(echo, "m", {}, ("harbor_task_dir",), place)))
    assert (result.output["error"], result.output["reward"]) == (None, 1.0)
    assert result.output["harbor_task_dir"] == str(moved)


def test_a_rollout_that_is_no_trial_has_no_record():
    result = asyncio.run(run_row(Guessing(), ROWS[0], RowPlan(counting, "m", {}, ("model",))))
    assert (result.output["reward"], result.output["model"], result.record) == (1.0, "m", None)


def test_a_trial_that_nobody_judged_has_a_record_that_says_so(tmp_path):
    class Forgetful(vf.HarborEnv):
        async def post_rollout(self, state):
            pass

    env = harbor_env(make_tasks(tmp_path / "tasks"), Forgetful, score_rollouts=False)
    (row,) = env.get_dataset()
    place = RolloutPlace(env.trial_spec(row, "m"), tmp_path)
    result = asyncio.run(run_row(env, row, RowPlan(echo, "m", {}, place=place)))
    assert result.record is not None
    assert result.record.failure is not None
    assert "was not judged" in result.record.failure.message


def sent(environment):
    return pickle.loads(pickle.dumps(environment))  # noqa: S301 - our own


def test_an_environment_that_is_in_use_can_be_sent(tmp_path):
    async def scenario():
        env = Own("true", make_tasks(tmp_path), image="host", env_id="mine", memory_gb=1)
        async with env, env._sandboxes.in_use():
            return env, sent(env)

    env, other = asyncio.run(scenario())
    assert other.get_dataset() == env.get_dataset()
    assert other._sandboxes.settings == env._sandboxes.settings
    assert other.sandbox_client is other._sandboxes.client is not env.sandbox_client
    functions = other.rubric.get_reward_funcs()
    assert (functions[0], len(functions)) == (other.harbor_reward, len(env.rubric.get_reward_funcs()))
    assert other.env_id == "mine"


@pytest.mark.parametrize("make", [cli_env, lambda: vf.SandboxEnv(dataset=ROWS, backend=world())])
def test_one_with_an_open_backend_says_what_to_do(make):
    with pytest.raises(vf.UsageError, match="backend='embedded'"):
        pickle.dumps(make())


def test_a_client_is_sent_with_its_key_and_shows_it_to_nobody(monkeypatch):
    monkeypatch.setenv("MINE", "secret")
    config = sent(vf.ClientConfig(base_url="http://localhost:1/v1", api_key_var="MINE").with_key())
    monkeypatch.delenv("MINE")
    assert config.api_key == "secret"
    assert "secret" not in repr(config)
    config.provider()
    plain = vf.ClientConfig(base_url="http://localhost:1/v1")
    assert plain.with_key() is plain


@pytest.mark.parametrize(("odd", "message"), [({"info": "not JSON"}, "info is text"), ({"lock": Lock()}, "lock")])
def test_a_row_that_no_state_can_be_made_of_is_an_error_of_its_own(odd, message):
    rows = [ROWS[0], {**ROWS[1], "task": "odd", **odd}]
    env = Guessing(max_turns=1, dataset=rows)
    first, second = env.evaluate_sync(counting, "m")["outputs"]
    assert first["error"] is None
    assert message in second["error"]["message"]
    assert (second["task"], second["example_id"], second["reward"]) == ("odd", 1, None)
