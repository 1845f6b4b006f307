"""A loaded job: what counts is decided once, and the labels of its tasks are at hand."""

import pytest

from seatrial.analysis.columns import COLUMNS, trial_rows
from seatrial.analysis.figures import figures_of
from seatrial.analysis.figures_json import arms_json
from seatrial.analysis.loaded import load_job
from seatrial.errors import JobError
from seatrial.model.job import TaskLabels
from seatrial.model.record import VerifierRun
from tests.analysis import in_memory
from tests.analysis.in_memory import entry
from tests.cli.job_folders import BROKEN, make_job, record

SILENT = VerifierRun(exit_code=1, duration_sec=0.1, isolation="guarded", baseline="silent")


def test_a_job_is_read_with_its_summary(tmp_path):
    make_job(tmp_path / "job", record("a", 1.0), record("b", 0.0), record("b", BROKEN, "noop"))
    job = load_job(str(tmp_path / "job"))
    assert (job.name, job.path, job.threshold) == ("job", tmp_path / "job", 1.0)
    assert [trial.trial_id for trial in job.trials] == ["a.oracle.1", "b.noop.1", "b.oracle.1"]
    assert job.summary.agents["oracle"].mean == 0.5
    assert job.summary.agents["noop"].mean is None
    assert job.labels_of("a") == job.labels_of("no such task") == TaskLabels()


def test_no_trial_of_a_task_with_a_broken_verifier_counts(tmp_path):
    broken = record("a", "verifier_error", "noop", verifier_run=SILENT)
    make_job(tmp_path / "job", record("a", 1.0), broken, record("b", 1.0))
    job = load_job(tmp_path / "job")
    assert {trial.trial_id: trial.outcome for trial in job.trials} == {
        "a.noop.1": "verifier_error",
        "a.oracle.1": "verifier_error",
        "b.oracle.1": "pass",
    }
    assert job.summary.broken_tasks == ("a",)


def test_a_folder_without_a_job_is_named(tmp_path):
    with pytest.raises(JobError, match="nothing-here"):
        load_job(tmp_path / "nothing-here")


@pytest.fixture
def mixed(tmp_path):
    records = [record("a", 1.0), record("b", 0.0), record("b", BROKEN, "noop"), record("a", 0.0, "noop", 2)]
    make_job(tmp_path / "job", *records, attempts=2, missing_tasks=1)
    return load_job(tmp_path / "job")


def test_a_filter_by_what_trials_became_leaves_none_open(mixed):
    failed = mixed.where("outcome=fail")
    assert [trial.trial_id for trial in failed.trials] == ["a.noop.2", "b.oracle.1"]
    assert failed.shown == "2 of 4 finished trials, those where outcome=fail"
    assert (failed.summary.total.planned, failed.summary.total.open) == (2, 0)
    assert mixed.shown is None


def test_a_filter_by_what_was_planned_counts_what_is_open(mixed):
    noop = mixed.where("agent=noop")
    assert {*noop.summary.agents} == {"noop"}
    assert (noop.summary.total.planned, noop.summary.total.finished, noop.summary.total.open) == (6, 2, 4)
    one = mixed.where("task=a", "attempt=2")
    assert (one.summary.total.planned, one.summary.total.open) == (2, 1)


def test_filters_add_up(mixed):
    both = mixed.where("task=b").where("outcome=fail")
    assert [trial.trial_id for trial in both.trials] == ["b.oracle.1"]
    assert both.shown == "1 of 4 finished trials, those where task=b,outcome=fail"
    assert mixed.where() is mixed


def test_a_trial_that_was_judged_again_has_the_threshold_of_that():
    trials = [entry("a", 0.6, revision=1, pass_threshold=0.5), entry("b", 0.6)]
    job = in_memory.job("x", trials)
    assert [job.threshold_of(trial) for trial in trials] == [0.5, 1.0]
    assert (job.thresholds, in_memory.job("y", []).thresholds) == ((0.5, 1.0), (1.0,))
    column = [each.name for each in COLUMNS].index("pass_threshold")
    assert [row[column] for row in trial_rows(job.arms)] == [0.5, 1.0]
    both, one = (arms_json(each.arms, {"oracle": figures_of(each.arms[0])}) for each in (job, job.where("task=a")))
    assert (both[0]["pass_threshold"], one[0]["pass_threshold"]) == (None, 0.5)
