"""import_job: records that say what their source says, both means, and nothing half-written. Also its records."""

import errno

import pytest

from seatrial.analysis.loaded import load_job
from seatrial.errors import ImportSourceError, JobError, StoreError
from seatrial.gateway.calls import CALLS_FILE, read_calls
from seatrial.integrations import importing
from seatrial.integrations.importing import (
    CountedTrial,
    ImportOptions,
    RewardRange,
    compare_means,
    import_job,
    open_source,
)
from seatrial.store.files import sync_file_system
from tests.integrations.samples import ERROR, harbor_trial, rollout, write_harbor, write_verifiers


def failed(example: int):
    return rollout(example, 0.0, error=ERROR, completion=[])


def imported(tmp_path, *rows, options=None, **metadata):
    source = write_verifiers(tmp_path / "out", *rows, **metadata)
    return import_job(open_source(source), tmp_path / "job", options)


def test_a_job_that_everything_reads(tmp_path):
    rows = [rollout(0, 1.0), rollout(0, 0.0), rollout(1, 0.5), failed(1)]
    report = imported(tmp_path, *rows, avg_reward=0.375)
    job = load_job(tmp_path / "job")
    assert [(trial.trial_id, trial.outcome) for trial in job.trials] == [
        ("sums-0.verifiers.1", "pass"),
        ("sums-0.verifiers.2", "fail"),
        ("sums-1.verifiers.1", "partial"),
        ("sums-1.verifiers.2", "infrastructure_error"),
    ]
    assert (job.uncounted, job.summary.open, job.summary.total.mean) == ((), 0, 0.5)
    (means,) = report.means
    assert (means.stored, means.mean, means.scored, means.trials) == (0.375, 0.5, 3, 4)
    assert [round(reason.change, 6) for reason in means.reasons] == [0.125]
    assert job.file.imported is not None
    assert job.file.imported.stored_means == {"verifiers": 0.375}


def test_a_record_says_where_it_is_from_and_invents_nothing(tmp_path):
    imported(tmp_path, rollout(0, 1.0))
    job = load_job(tmp_path / "job")
    record = job.record("sums-0.verifiers.1")
    assert (record.sandbox.backend, record.sandbox.image, record.sandbox.network) == ("imported", "unknown", "unknown")
    assert (record.verifier_run, record.provenance, record.resources, record.agent_result) == (None, None, None, None)
    assert record.imported is not None
    assert job.file.imported is not None
    assert (record.imported.line, record.imported.sha256) == (1, job.file.imported.sha256)
    assert str(tmp_path) not in record.model_dump_json()
    assert len(read_calls(job.store.trial_folder(record.trial_id) / CALLS_FILE)) == 2


def test_no_verdict_is_in_no_mean(tmp_path):
    imported(tmp_path, rollout(0, None), rollout(1, 1.0))
    job = load_job(tmp_path / "job")
    assert [trial.outcome for trial in job.trials] == ["verifier_error", "pass"]
    assert job.summary.total.mean == 1.0


def test_rewards_outside_0_to_1_are_refused_with_the_range_to_name(tmp_path):
    with pytest.raises(ImportSourceError, match=r"1 of 2 rewards .* 1\.5 in results\.jsonl line 2; .*range 0:1\.5"):
        imported(tmp_path, rollout(0, 1.0), rollout(1, 1.5))
    assert not (tmp_path / "job").exists()


def test_a_range_is_mapped_and_recorded(tmp_path):
    options = ImportOptions(RewardRange(-1.0, 1.0))
    imported(tmp_path, rollout(0, 0.0), rollout(1, 1.0), options=options, avg_reward=0.5)
    job = load_job(tmp_path / "job")
    assert [trial.reward for trial in job.trials] == [0.5, 1.0]
    evaluation = job.record("sums-0.verifiers.1").evaluation
    assert job.file.imported is not None
    assert evaluation is not None
    assert job.file.imported.reward_range == (-1.0, 1.0)
    assert "mapped onto 0 to 1" in evaluation.validity.errors[0]


def test_the_threshold_is_the_one_asked_for(tmp_path):
    imported(tmp_path, rollout(0, 0.5), options=ImportOptions(pass_threshold=0.5))
    assert load_job(tmp_path / "job").trials[0].outcome == "pass"


def test_agents_of_one_name_are_told_apart(tmp_path):
    other = {"name": "terminus", "version": "2.0", "model_info": {"name": "other", "provider": "openai"}}
    trials = [harbor_trial("a", {"reward": 1}), harbor_trial("a", {"reward": 0}, agent_info=other)]
    report = import_job(open_source(write_harbor(tmp_path / "out", *trials)), tmp_path / "job")
    assert [each.agent for each in report.means] == ["terminus openai/gpt", "terminus openai/other"]
    assert [trial.agent for trial in load_job(tmp_path / "job").trials] == [each.agent for each in report.means]


def test_settings_of_the_source_with_keys_in_them_are_not_copied(tmp_path):
    folder = write_harbor(tmp_path / "out", harbor_trial("a", {"reward": 1}))
    import_job(open_source(folder), tmp_path / "job")
    everything = b"".join(path.read_bytes() for path in (tmp_path / "job").rglob("*") if path.is_file())
    assert b"sk-very-secret" not in everything


def test_nothing_is_left_of_an_import_that_breaks_off(tmp_path, monkeypatch):
    def break_off(commits):
        commits[0].error = StoreError("the disk is full")

    monkeypatch.setattr(importing, "commit_together", break_off)
    with pytest.raises(StoreError, match="full"):
        imported(tmp_path, rollout(0, 1.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_the_disk_has_all_of_it_before_it_is_in_its_place(tmp_path, monkeypatch):
    def look(aside):
        sync_file_system(aside)
        records = [*aside.glob("job/trials/*/record.json")]
        seen.append((len(records), (tmp_path / "job").exists()))

    seen: list[tuple[int, bool]] = []
    monkeypatch.setattr(importing, "sync_file_system", look)
    imported(tmp_path, rollout(0, 1.0), rollout(1, 0.0))
    assert seen == [(2, False)]


def test_nothing_is_left_of_an_import_that_the_disk_does_not_take(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(importing, "sync_file_system", full)
    with pytest.raises(StoreError, match="No space left"):
        imported(tmp_path, rollout(0, 1.0))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_folder_that_is_taken_is_left_alone(tmp_path):
    imported(tmp_path, rollout(0, 1.0))
    with pytest.raises(JobError, match="holds a job already; results were imported"):
        import_job(open_source(tmp_path / "out"), tmp_path / "job")


def test_a_source_without_any_trial_is_refused(tmp_path):
    with pytest.raises(ImportSourceError, match="no trial of verifiers to import; 1 unreadable"):
        imported(tmp_path, "nothing")
    assert not (tmp_path / "job").exists()


def test_sums_of_weights_that_are_off_by_rounding_are_rewards(tmp_path):
    report = imported(tmp_path, rollout(0, 0.1 + 0.2 + 0.7 + 2**-52), rollout(1, -1e-17))
    assert [trial.reward for trial in load_job(report.store.path).trials] == [1.0, 0.0]


def test_the_range_to_name_is_one_that_is_taken(tmp_path):
    with pytest.raises(ImportSourceError, match=r"--reward-range 0:1\.2345678$"):
        imported(tmp_path, rollout(0, 1.2345678))


def changes(stored, trials, scale=""):
    found = compare_means("agent", stored, trials, "they count it as 0", scale)
    assert found.mean is not None
    if stored is not None:
        assert stored + sum(reason.change for reason in found.reasons) == pytest.approx(found.mean)
    return found.mean, [reason.text for reason in found.reasons]


def test_the_same_number_needs_no_reason():
    assert changes(0.5, [CountedTrial("a", 1.0, 1.0), CountedTrial("b", 0.0, 0.0)]) == (0.5, [])


def test_trials_without_a_verdict_leave_the_mean():
    trials = [CountedTrial("a", 1.0, 1.0), CountedTrial("b", 0.0, None)]
    mean, (reason,) = changes(0.5, trials)
    assert mean == 1.0
    assert reason == "1 trial without a verdict is in no mean here; they count it as 0"


def test_tasks_with_more_trials_weigh_no_more():
    trials = [CountedTrial("a", 1.0, 1.0), CountedTrial("a", 1.0, 1.0), CountedTrial("b", 0.0, 0.0)]
    mean, (reason,) = changes(2 / 3, trials)
    assert mean == 0.5
    assert "tasks weigh the same" in reason


def test_a_stored_mean_that_does_not_follow_is_told():
    mean, (reason,) = changes(0.9, [CountedTrial("a", 0.5, 0.5)])
    assert mean == 0.5
    assert "is not that of these trials" in reason


def test_a_range_that_was_mapped_is_told():
    mean, (reason,) = changes(2.0, [CountedTrial("a", 2.0, 0.5)], "mapped")
    assert (mean, reason) == (0.5, "mapped")


def test_without_verdicts_there_is_no_mean():
    found = compare_means("agent", 0.0, [CountedTrial("a", 0.0, None)], "rule", "")
    assert (found.mean, found.scored, found.trials, found.reasons) == (None, 0, 1, [])


def test_without_a_stored_mean_there_is_nothing_to_explain():
    assert changes(None, [CountedTrial("a", 1.0, 1.0)]) == (1.0, [])
