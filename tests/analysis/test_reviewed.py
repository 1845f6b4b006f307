"""What people say is joined to a record when it is read: verdicts, tags, how far they agree; nothing is stored."""

import pytest

from seatrial.analysis.reviewed import first_ratings, human_tags, review_confidence, reviewer_agreement, standing
from seatrial.analysis.taxonomy import taxonomy_of
from seatrial.model.evaluation import ConfidenceMetadata, ErrorSource
from tests.review.journals import reviewed_job, said, taken_back

TRIAL = "t1.oracle.1"


def by(entries):
    return [(each.reviewer_id, each.annotation.judgment.value) for each in entries]


def test_what_stands_is_each_reviewers_last_word_unless_an_adjudication_overruled_it():
    first, second = said(TRIAL, "ada", "f"), said(TRIAL, "ada", "p", 5, role="second_look")
    other = said(TRIAL, "eve", "f", 1)
    assert by(standing([first, other])) == [("ada", "fail"), ("eve", "fail")]
    assert by(standing([first, other, second])) == [("ada", "pass"), ("eve", "fail")]
    settled = said(TRIAL, "kim", "p", 9, role="adjudication")
    assert by(standing([first, other, second, settled])) == [("ada", "pass"), ("kim", "pass")]
    assert by(standing([said(TRIAL, "kim", "d", role="adjudication"), other])) == [("eve", "fail")]


def test_categories_of_what_stands_are_tags_of_people():
    wrong = said(TRIAL, "ada", "f", categories=["units", "sign"])
    same = said(TRIAL, "eve", "f", 1, categories=["units"])
    tags = human_tags([wrong, same])
    assert [(tag.category, tag.description) for tag in tags] == [("units", "said by ada, eve"), ("sign", "said by ada")]
    assert {tag.source for tag in tags} == {ErrorSource.HUMAN}
    assert human_tags([wrong, taken_back(wrong)]) == []


def test_only_first_verdicts_that_decide_are_ratings():
    entries = [
        said(TRIAL, "ada", "f"),
        said(TRIAL, "ada", "p", 5, role="second_look"),
        said(TRIAL, "eve", "d"),
        said(TRIAL, "kim", "p", role="gold"),
    ]
    assert first_ratings({TRIAL: entries, "t2": [said("t2", "eve", "d")]}) == {TRIAL: {"ada": "fail"}}


def reviews():
    rows = {"t1": "pp", "t2": "ff", "t3": "pf", "t4": "ff", "t5": "pp"}
    return {task: [said(task, "ada", row[0]), said(task, "eve", row[1])] for task, row in rows.items()}


def test_confidence_is_that_of_the_job_and_keeps_what_the_verifier_said():
    agreement = reviewer_agreement(reviews())
    found = review_confidence(reviews()["t1"], agreement, ConfidenceMetadata(verifier_repeats=5))
    assert found
    assert (found.annotator_count, found.agreement_metric, found.sample_size) == (2, "cohen_kappa", 5)
    assert found.inter_rater_agreement == pytest.approx(0.6154, abs=1e-4)
    assert (found.verifier_repeats, found.confidence_method, found.confidence_level) == (
        5,
        "bootstrap over trials",
        0.95,
    )
    own = ConfidenceMetadata(confidence_interval=(0.1, 0.2), confidence_method="its own")
    kept = review_confidence(reviews()["t1"], agreement, own)
    assert kept
    assert (kept.confidence_interval, kept.confidence_method, kept.sample_size) == ((0.1, 0.2), "its own", None)
    assert kept.annotator_count == 2


def test_nobody_decided_changes_nothing():
    assert review_confidence([said(TRIAL, "ada", "d")], reviewer_agreement({}), None) is None
    alone = review_confidence([said(TRIAL, "ada", "p")], reviewer_agreement({}), None)
    assert alone == ConfidenceMetadata(annotator_count=1)


def test_a_loaded_job_has_it_in_records_and_tags_and_the_store_has_not(tmp_path):
    job = reviewed_job(
        tmp_path / "job",
        {"t1": 0.0, "t2": 1.0},
        said(TRIAL, "ada", "f", categories=["units"]),
        said(TRIAL, "eve", "f"),
        said("t2.oracle.1", "ada", "p"),
        said("t2.oracle.1", "eve", "p"),
    )
    evaluation = job.record(TRIAL).evaluation
    assert evaluation
    assert evaluation.confidence
    assert (evaluation.confidence.annotator_count, evaluation.confidence.inter_rater_agreement) == (2, 1.0)
    assert [(tag.category, tag.source.value) for tag in evaluation.error_taxonomy or ()] == [("units", "human")]
    assert len(evaluation.annotations or ()) == 2
    assert {trial.trial_id: trial.tags for trial in job.trials} == {TRIAL: ("human:units",), "t2.oracle.1": ()}
    (tag,) = taxonomy_of(job.arms).failures
    assert (tag.category, tag.source, tag.trials) == ("units", "human", 1)
    assert [each.trial_id for each in job.where("tag=human:units").trials] == [TRIAL]
    stored = job.store.revisions(TRIAL)[-1].record.evaluation
    assert stored
    assert (stored.confidence, stored.error_taxonomy, stored.annotations) == (None, None, None)
