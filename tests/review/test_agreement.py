"""What the reviews of jobs amount to: by first verdicts, per job and task, with what the verifier got wrong."""

import json

import pytest

from seatrial.analysis.loaded import load_job
from seatrial.model.review import Sampling
from seatrial.review.agreement import agreement_json, agreement_report, readiness
from tests.review.journals import reviewed_job, said, taken_back

REWARDS = {"t1": 1.0, "t2": 1.0, "t3": 0.0, "t4": 0.0, "t5": 1.0, "t6": 0.5}


def trial(task):
    return f"{task}.oracle.1"


def both_said(rows, **more):
    """What ada and eve said: two letters for each task, a dot for nothing."""
    return [
        said(trial(task), who, what, minute, **more)
        for minute, (task, row) in enumerate(rows.items())
        for who, what in zip(("ada", "eve"), row, strict=True)
        if what != "."
    ]


@pytest.fixture
def job(tmp_path):
    entries = both_said({"t1": "pp", "t2": "ff", "t3": "ff", "t4": "pf", "t5": "d.", "t6": "pp"}, seconds=30.0)
    return reviewed_job(tmp_path / "job", REWARDS, *entries)


def test_people_are_compared_by_their_first_verdicts(job):
    report = agreement_report([job]).overall
    assert (report.trials, report.reviewed, report.annotators) == (6, 6, 2)
    assert report.deferred == pytest.approx(1 / 11)
    assert report.agreement.headline == "cohen_kappa"
    assert report.agreement.shared == 5
    assert report.states == {"agreed": 4, "needs": 1, "open": 1}
    job.store.add_reviews(said(trial("t4"), "eve", "p", 90, role="second_look"))
    after = agreement_report([load_job(job.path)]).overall
    assert after.agreement == report.agreement
    assert after.states == {"agreed": 5, "open": 1}


def test_the_verifier_against_people(job):
    found = agreement_report([job]).overall.verifier
    confusion = found.confusion
    assert (confusion.both_pass, confusion.only_verifier, confusion.only_people, confusion.both_fail) == (1, 1, 1, 1)
    assert [each.trial_id for each in found.wrong_passes] == [trial("t2")]
    assert [(each.trial_id, each.reward, each.people.value) for each in found.wrong_fails] == [
        (trial("t6"), 0.5, "pass")
    ]
    assert (found.judged, found.pass_rate, found.sampled) == (6, 0.5, False)
    assert found.powered
    assert found.powered.reviewed == 4


def test_trials_that_were_drawn_stand_for_all_of_their_stratum(tmp_path):
    rare = Sampling(stratum="random", probability=0.4)  # two of five, one of which nobody got to
    entries = [
        said(trial("t1"), "ada", "p", sampling=rare),
        said(trial("t2"), "ada", "f", sampling=Sampling(stratum="disputed", probability=1.0)),
    ]
    found = agreement_report([reviewed_job(tmp_path / "job", REWARDS, *entries)]).overall.verifier
    assert found.sampled
    assert found.confusion.precision
    assert found.confusion.precision.value == pytest.approx(5 / 6)


def test_blind_verdicts_are_also_reported_apart_where_there_are_both_kinds(tmp_path):
    blind = both_said({"t1": "pp", "t2": "ff"}, blind=True)
    sighted = both_said({"t3": "pf", "t4": "ff"})
    report = agreement_report([reviewed_job(tmp_path / "job", REWARDS, *blind, *sighted)]).overall
    assert report.blind
    assert report.sighted
    assert (report.blind.first and report.blind.first.value, report.blind.shared) == (1.0, 2)
    assert (report.sighted.first and report.sighted.first.value, report.sighted.shared) == (0.0, 2)
    only = agreement_report([reviewed_job(tmp_path / "other", REWARDS, *blind)]).overall
    assert (only.blind, only.sighted) == (None, None)


def test_reviewers_are_measured_against_what_others_know_to_be_right(tmp_path):
    entries = [
        *both_said({"t1": "pp", "t2": "fp", "t3": "df"}, seconds=20.0),
        *(said(trial(task), "kim", what, role="gold") for task, what in (("t1", "p"), ("t2", "f"), ("t3", "f"))),
        said(trial("t4"), "ada", "f", reviewer_discipline="civil"),
        said(trial("t4"), "ada", "p", role="gold"),
    ]
    ada, eve = agreement_report([reviewed_job(tmp_path / "job", REWARDS, *entries)]).overall.reviewers
    assert (ada.reviewer_id, ada.discipline, ada.passed, ada.failed, ada.deferred) == ("ada", "civil", 1, 2, 1)
    assert (ada.calibrated, ada.right, ada.seconds) == (2, 2, 20.0)
    assert (eve.calibrated, eve.right) == (3, 2)


def test_several_jobs_are_told_together_and_apart(tmp_path):
    jobs = [
        reviewed_job(tmp_path / name, REWARDS, *both_said({"t1": row, "t2": "ff"}))
        for name, row in (("one", "pp"), ("two", "pf"))
    ]
    report = agreement_report(jobs)
    assert [each.name for each in report.jobs] == [str(job.path) for job in jobs]
    assert report.overall.agreement.shared == 4
    assert [each.agreement.shared for each in report.jobs] == [2, 2]
    assert [(each.task_id, each.trials, each.reviewed) for each in report.tasks] == [("t1", 2, 2), ("t2", 2, 2)]


def test_what_was_taken_back_does_not_count(tmp_path):
    first, second = both_said({"t1": "pf"})
    job = reviewed_job(tmp_path / "job", REWARDS, first, second, taken_back(second))
    report = agreement_report([job]).overall
    assert (report.annotators, report.states) == (1, {"single": 1})


def test_nothing_is_said_of_what_nobody_reviewed(tmp_path):
    report = agreement_report([reviewed_job(tmp_path / "job", REWARDS)])
    assert (report.overall.reviewed, report.overall.deferred, report.tasks) == (0, None, ())
    assert report.overall.verifier.powered is None


def test_programs_get_all_of_it_as_json(job):
    report = agreement_report([job])
    document = json.loads(json.dumps(agreement_json(report, readiness(report.overall))))
    assert document["overall"]["annotators"] == 2
    assert document["overall"]["agreement"]["headline"] == "cohen_kappa"
    assert document["overall"]["states"] == {"agreed": 4, "needs": 1, "open": 1}
    assert document["overall"]["verifier"]["wrong_passes"][0]["trial_id"] == trial("t2")
    assert "calibration_trials" in document["readiness"]["reasons"]
