"""Rollouts of HarborEnv in a job's folder: records, files, and an evaluation that is gone on with."""

import pytest

import seatrial as vf
from seatrial.errors import SandboxError
from seatrial.gateway.calls import read_calls
from tests.env.worlds import ask, evaluate, harbor_env, make_tasks, world


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
    assert (call.upstream_model, call.messages) == ("gpt-4", [{"role": "user", "content": "hello"}])
    assert (folder / "agent/stdout.txt").exists()
    assert (folder / "verifier/stdout.txt").read_text() == "judged"


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
        make_tasks(tmp_path), dataset=[{"prompt": "x", "info": {}}, {"prompt": "y", "info": {"task_dir": 7}}]
    )
    results = evaluate(env)
    assert [output["error"]["error"] for output in results["outputs"]] == ["UsageError", "UsageError"]
    assert results["metadata"]["avg_reward"] is None
