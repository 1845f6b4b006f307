"""Rollouts of HarborEnv in a job's folder: records, files, and an evaluation that is gone on with."""

import json

import pytest

import seatrial as vf
from seatrial.cli.main import run as seatrial
from seatrial.errors import SandboxError
from seatrial.gateway.calls import read_calls
from seatrial.testing.fake import answer
from tests.env.worlds import REWARD_TXT, ask, evaluate, harbor_env, make_tasks, world


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
