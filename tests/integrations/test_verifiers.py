"""Folders of verifiers' results: both layouts, what is unknown in each, and lines that are no rollouts."""

import json

import pytest

from seatrial.errors import ImportSourceError
from seatrial.integrations.foreign import MOST_BYTES_OF_LINE, ForeignTrial, Skipped
from seatrial.integrations.importing import import_job, open_source
from seatrial.integrations.verifiers import VerifiersResults
from tests.integrations.samples import ERROR, old_rollout, rollout, write_verifiers


def read(folder):
    found = list(VerifiersResults(folder).trials())
    return [each for each in found if isinstance(each, ForeignTrial)], [e for e in found if isinstance(e, Skipped)]


def test_a_line_of_the_new_layout(tmp_path):
    (trial,), skipped = read(write_verifiers(tmp_path / "out", rollout(3, 0.5)))
    assert not skipped
    assert (trial.task.id, trial.task.source, trial.agent.model) == ("sums-3", "org/sums", "fake/model")
    assert (trial.verdict.score, trial.verdict.parts) == (0.5, {"right": 0.5, "num_turns": 2.0})
    assert (trial.usage.calls, trial.usage.input_tokens, trial.usage.output_tokens) == (2, 20, 6)
    assert [time.phase for time in trial.times] == ["setup", "agent", "score"]
    assert [call.duration_sec for call in trial.calls] == [2.5, 2.5]
    assert trial.calls[1].messages[1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 2}'}
    assert trial.calls[0].request["tools"][0]["function"]["name"] == "add"
    assert (trial.origin.version, trial.origin.file, trial.origin.line) == ("0.3.1", "results.jsonl", 1)
    assert trial.origin.stated["stop_condition"] == "no_tools_called"


def test_a_line_of_the_old_layout_has_no_times_and_no_tokens(tmp_path):
    (trial,), _ = read(write_verifiers(tmp_path / "out", old_rollout(3, 1.0), version_info=None))
    assert (trial.verdict.score, trial.verdict.parts) == (1.0, {"right": 1.0, "num_turns": 2.0})
    assert (trial.usage, trial.times, trial.origin.version) == (None, (), None)
    assert [call.started_at for call in trial.calls] == [None, None]
    assert "tool_calls" not in trial.calls[1].messages[-1]
    assert trial.origin.stated["generation_ms"] == 22.1


def test_an_example_is_the_same_task_in_both_layouts(tmp_path):
    (new,), _ = read(write_verifiers(tmp_path / "new", rollout(0, 1.0)))
    (old,), _ = read(write_verifiers(tmp_path / "old", old_rollout(0, 1.0, info={})))
    assert new.task == old.task


def test_one_number_for_two_questions_is_two_tasks(tmp_path):
    other = rollout(0, 1.0, prompt="another question")
    (one, two), _ = read(write_verifiers(tmp_path / "out", rollout(0, 1.0), other))
    assert one.task.id == "sums-0"
    assert two.task.id.startswith("sums-0-")
    assert two.calls[0].messages[0] == {"role": "user", "content": "another question"}


@pytest.mark.parametrize(
    ("error", "cause", "message"),
    [
        (ERROR, "ModelError", "ModelError() -> ConnectionError('away')"),
        ("SandboxError('no room')", "SandboxError", "no room"),
        ("just words", "Error", "just words"),
    ],
)
def test_an_error_is_a_failure_whatever_reward_stands_beside_it(tmp_path, error, cause, message):
    (trial,), _ = read(write_verifiers(tmp_path / "out", rollout(0, 0.0, error=error)))
    assert (trial.verdict, trial.failure.cause, trial.failure.message) == (None, cause, message)
    assert (trial.counted_as, trial.origin.stated["reward"]) == (0.0, 0.0)


@pytest.mark.parametrize("reward", [None, "0.5", True, float("nan"), float("inf")])
def test_what_is_no_number_is_no_reward(tmp_path, reward):
    (trial,), _ = read(write_verifiers(tmp_path / "out", rollout(0, reward)))
    assert trial.verdict.score is None
    assert "expected a number" in trial.verdict.fault


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"example_id": 0, "reward": 1', "is not JSON"),
        ("[1, 2]", "expected an object"),
        ('{"reward": 1.0}', "is no rollout"),
        ('{"example_id": 0}', "is no rollout"),
        ("[" * 100_000, "is nested too deeply"),
        (json.dumps({"example_id": 0, "reward": 1, "info": "\ud800"}), "cannot be stored"),
        ('{"example_id": 0, "reward": 1e999}', "cannot be stored"),
    ],
)
def test_a_bad_line_is_left_out_and_named(tmp_path, line, reason):
    trials, (skipped,) = read(write_verifiers(tmp_path / "out", rollout(0, 1.0), line, "", rollout(1, 1.0)))
    assert [trial.origin.line for trial in trials] == [1, 4]
    assert skipped.place == "results.jsonl line 2"
    assert reason in skipped.reason


def test_a_line_without_end_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.integrations.foreign.MOST_BYTES_OF_LINE", 5_000)
    assert MOST_BYTES_OF_LINE > 5_000
    long = rollout(0, 1.0, answer="x" * 20_000)
    trials, (skipped,) = read(write_verifiers(tmp_path / "out", long, rollout(1, 1.0)))
    assert [trial.origin.line for trial in trials] == [2]
    assert "longer than any rollout" in skipped.reason


def test_a_file_that_grows_meanwhile_is_refused(tmp_path):
    folder = write_verifiers(tmp_path / "out", rollout(0, 1.0))
    source = VerifiersResults(folder)
    with (folder / "results.jsonl").open("a") as file:
        file.write(json.dumps(rollout(1, 1.0)) + "\n")
    with pytest.raises(ImportSourceError, match=r"results\.jsonl: was changed while it was read"):
        list(source.trials())


def test_without_metadata_the_rest_is_read(tmp_path):
    folder = write_verifiers(tmp_path / "out", rollout(0, 1.0))
    (folder / "metadata.json").unlink()
    source = VerifiersResults(folder)
    assert (source.stored_means, source.agent.model) == ({}, None)
    assert "there is no metadata.json" in source.notes[0]


def test_rollouts_that_are_missing_are_noted_once_all_were_read(tmp_path):
    source = VerifiersResults(write_verifiers(tmp_path / "out", *[rollout(0, 1.0)] * 3))
    assert source.notes == []
    list(source.trials())
    assert source.notes == ["metadata.json speaks of 4 rollouts, and results.jsonl has 3"]


def test_metadata_that_cannot_be_read_is_named(tmp_path):
    folder = write_verifiers(tmp_path / "out", rollout(0, 1.0))
    (folder / "metadata.json").write_text("{")
    with pytest.raises(ImportSourceError, match=r"metadata\.json: is not JSON"):
        open_source(folder)


def test_links_are_not_followed(tmp_path):
    folder = write_verifiers(tmp_path / "out", rollout(0, 1.0))
    (folder / "results.jsonl").rename(tmp_path / "elsewhere")
    (folder / "results.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ImportSourceError, match="cannot be read"):
        open_source(folder)


HUGE = 2**70


@pytest.mark.parametrize(
    "more",
    [{"info": {"n": HUGE}}, {"answer": HUGE}, {"completion": [{"role": "assistant", "content": "x", "n": HUGE}]}],
)
def test_numbers_that_are_too_long_for_our_files_are_kept_as_text(tmp_path, more):
    folder = write_verifiers(tmp_path / "out", rollout(0, 1.0, **more))
    report = import_job(open_source(folder), tmp_path / "job")
    assert (report.trials, report.skipped) == (1, [])
    (trial,), _ = read(folder)
    assert "completion" not in more or trial.calls[0].response["choices"][0]["message"]["n"] == str(HUGE)


def test_a_rollout_that_cannot_be_stored_is_left_out_and_named(tmp_path):
    deep = json.loads("[" * 98 + "]" * 98)
    bad = rollout(0, 1.0, completion=[{"role": "assistant", "content": deep}])
    trials, (skipped,) = read(write_verifiers(tmp_path / "out", bad, rollout(1, 1.0)))
    assert [trial.task.id for trial in trials] == ["sums-1"]
    assert skipped.place == "results.jsonl line 1"
    assert "nested deeper" in skipped.reason


@pytest.mark.parametrize(
    ("example", "task"),
    [(-1, "sums--1"), (1.0, "sums-1"), (2**63 - 1, f"sums-{2**63 - 1}"), (10**25, f"sums-{10**25}")],
)
def test_any_whole_number_names_an_example(tmp_path, example, task):
    (trial,), _ = read(write_verifiers(tmp_path / "out", rollout(0, 1.0, example_id=example)))
    assert trial.task.id == task
