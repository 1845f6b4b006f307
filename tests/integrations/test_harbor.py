"""Harbor's job folders: verdicts, what an exception without one means, steps, trajectories, hostile folders."""

import json
import os

import pytest

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import ForeignTrial, Skipped
from seatrial.integrations.harbor import HarborResults
from seatrial.integrations.importing import import_job, open_source
from tests.integrations.samples import harbor_trial, write_harbor


def read(folder):
    found = list(HarborResults(folder).trials())
    return [each for each in found if isinstance(each, ForeignTrial)], [e for e in found if isinstance(e, Skipped)]


def test_a_verdict_with_all_that_the_result_says(tmp_path):
    (trial,), _ = read(write_harbor(tmp_path / "job", harbor_trial("sum", {"reward": 0.5})))
    assert (trial.task.id, trial.task.digest, trial.task.source) == ("sum", "ab" * 32, "mini")
    assert (trial.agent.name, trial.agent.version, trial.agent.model) == ("terminus", "2.0", "openai/gpt")
    assert (trial.verdict.score, trial.counted_as, trial.agent_result) == (0.5, 0.5, None)
    usage = trial.usage
    assert (usage.calls, usage.input_tokens, usage.cached_tokens, usage.cost_usd) == (None, 100, 40, 0.5)
    assert [time.phase for time in trial.times] == ["setup", "agent"]
    assert trial.origin.file == "sum__0000000/result.json"


@pytest.mark.parametrize(
    ("error", "kind", "phase"),
    [
        ("EnvironmentStartTimeoutError", "infrastructure", "agent"),
        ("CancelledError", "cancelled", "agent"),
    ],
)
def test_an_exception_without_a_verdict_is_a_failure(tmp_path, error, kind, phase):
    (trial,), _ = read(write_harbor(tmp_path / "job", harbor_trial("sum", None, error)))
    assert (trial.verdict, trial.counted_as) == (None, 0.0)
    assert (trial.failure.kind, trial.failure.phase, trial.failure.cause) == (kind, phase, error)


def test_the_phase_of_a_failure_is_the_last_that_began(tmp_path):
    early = harbor_trial("sum", None, "BuildError", agent_execution=None)
    (trial,), _ = read(write_harbor(tmp_path / "job", early))
    assert trial.failure.phase == "setup"


@pytest.mark.parametrize("error", ["AgentTimeoutError", "VerifierTimeoutError", "RewardFileNotFoundError"])
def test_an_agent_or_verifier_that_came_to_no_verdict_is_no_failure_of_the_machine(tmp_path, error):
    (trial,), _ = read(write_harbor(tmp_path / "job", harbor_trial("sum", None, error)))
    assert (trial.failure, trial.verdict.score) == (None, None)
    assert error in trial.verdict.fault


def test_a_verdict_after_the_agents_time_counts_and_says_so(tmp_path):
    (trial,), _ = read(write_harbor(tmp_path / "job", harbor_trial("sum", {"reward": 1}, "AgentTimeoutError")))
    assert (trial.verdict.score, trial.agent_result.status) == (1.0, "timed_out")
    assert trial.verdict.notes == ("AgentTimeoutError: so it was",)


@pytest.mark.parametrize(
    ("rewards", "score", "there"),
    [
        ({"accuracy": 0.5}, 0.5, 0.5),
        ({"reward": 0.25, "style": 1.0}, 0.25, 0.25),
        ({"a": 0.0, "b": 1.0}, 0.5, None),
        ({"reward": -1}, None, -1.0),
        ({"reward": "1"}, None, None),
        ({"a": "x", "b": None}, None, None),
    ],
)
def test_which_of_several_rewards_counts(tmp_path, rewards, score, there):
    (trial,), _ = read(write_harbor(tmp_path / "job", harbor_trial("sum", rewards)))
    assert (trial.verdict.score, trial.counted_as) == (score, there)


def test_steps_have_verdicts_of_their_own(tmp_path):
    steps = [{"step_name": "one", "verifier_result": {"rewards": {"reward": 1}}}, {"step_name": "two"}]
    (trial,), _ = read(write_harbor(tmp_path / "job", harbor_trial("sum", {"reward": 0.5}, step_results=steps)))
    assert [(step.name, step.verdict and step.verdict.score) for step in trial.steps] == [("one", 1.0), ("two", None)]


def test_a_trajectory_becomes_calls(tmp_path):
    folder = write_harbor(tmp_path / "job", harbor_trial("sum", {"reward": 1}))
    steps = [
        {"source": "user", "message": "Add."},
        {
            "source": "agent",
            "message": [{"type": "text", "text": "I look."}, {"type": "image"}],
            "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
            "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
            "metrics": {"prompt_tokens": 5, "completion_tokens": 2},
        },
        {"source": "agent", "message": "Done."},
    ]
    (folder / "sum__0000000/agent").mkdir()
    (folder / "sum__0000000/agent/trajectory.json").write_text(json.dumps({"steps": steps}))
    (trial,), _ = read(folder)
    first, last = trial.calls
    assert first.response["choices"][0]["message"]["content"] == "I look.\n[image]"
    assert (first.usage.input_tokens, last.usage, trial.usage.calls) == (5, None, 2)
    assert last.messages[-1] == {"role": "tool", "tool_call_id": "c1", "content": "a.txt"}


def test_trials_that_cannot_be_read_are_named(tmp_path):
    folder = write_harbor(tmp_path / "job", harbor_trial("a", {"reward": 1}), harbor_trial("b"), harbor_trial("c"))
    (folder / "b__0000001/result.json").write_text('{"trial_name": "x"')
    (folder / "c__0000002/result.json").unlink()
    trials, skipped = read(folder)
    assert [trial.task.id for trial in trials] == ["a"]
    assert [each.place for each in skipped] == ["b__0000001/result.json", "c__0000002/result.json"]
    assert "is not JSON" in skipped[0].reason
    assert "did not end" in skipped[1].reason


def test_the_stored_mean_is_that_of_the_agents_only_dataset(tmp_path):
    one = write_harbor(tmp_path / "one", harbor_trial("a", {"reward": 1}), mean=0.75)
    assert list(HarborResults(one).stored_means.values()) == [0.75]
    other = harbor_trial("b", {"reward": 1}, source="other")
    two = write_harbor(tmp_path / "two", harbor_trial("a", {"reward": 1}), other, mean=0.75)
    assert HarborResults(two).stored_means == {}


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda path: None, "is not there"),
        (lambda path: path.write_text("x"), "is a file"),
        (lambda path: path.mkdir(), "holds no results"),
    ],
)
def test_what_holds_no_results_is_refused(tmp_path, make, complaint):
    make(tmp_path / "job")
    with pytest.raises(ImportSourceError, match=complaint):
        open_source(tmp_path / "job")


def test_a_task_that_was_edited_meanwhile_is_two(tmp_path):
    trials = [harbor_trial("sort", {"reward": 1.0}, task_checksum=letter * 64) for letter in "aab"]
    report = import_job(open_source(write_harbor(tmp_path / "job", *trials)), tmp_path / "ours")
    assert {task.id for task in report.store.file.tasks} == {"sort", "sort-bbbbbbbb"}
    assert [mean.scored for mean in report.means] == [3]


def test_folders_may_have_any_name(tmp_path):
    folder = write_harbor(tmp_path / "job", harbor_trial("sort", {"reward": 1.0}))
    (named,) = (each for each in folder.iterdir() if each.is_dir())
    named.rename(os.fsdecode(os.fsencode(folder) + b"/odd\xff"))
    (trial,), skipped = read(folder)
    assert (trial.origin.file, skipped) == ("odd\ufffd/result.json", [])


def test_a_result_that_cannot_be_stored_is_left_out_and_named(tmp_path):
    steps = [{"agent_result": {"n_input_tokens": 2**62, "n_output_tokens": 1}}] * 4
    bad = harbor_trial("sort", {"reward": 1.0}, agent_result=None, step_results=steps)
    trials, (skipped,) = read(write_harbor(tmp_path / "job", bad))
    assert not trials
    assert "input_tokens" in skipped.reason
