"""What judges answered beside a trial: of its own revision, the latest of each rubric, and never in its reward."""

import datetime as dt
from typing import Any

import pytest

from seatrial.analysis.assessed import assessed_record, is_doubted
from seatrial.analysis.loaded import load_job, read_reviews_again
from seatrial.errors import JobError
from seatrial.model.assessment import AssessedQuestion, Assessment, JudgeRef, Vote
from seatrial.model.evaluation import ErrorSource, ErrorTag
from tests.analysis.memory_jobs import memory_job, trial
from tests.cli.job_folders import BEGUN, BROKEN, make_job, record

DIGEST = "a" * 64


def assessment(trial: str = "crc.oracle.1", number: int = 0, **more: Any) -> Assessment:
    values: dict[str, Any] = {
        "id": f"{number:016x}",
        "trial_id": trial,
        "rubric": "report",
        "rubric_digest": DIGEST,
        "prompt_digest": DIGEST,
        "evidence_digest": DIGEST,
        "judges": (JudgeRef(model="judge-1"),),
        "questions": (),
        "started_at": BEGUN,
        "finished_at": BEGUN + dt.timedelta(seconds=1),
    }
    return Assessment(**{**values, **more})


def tagged(category: str, **more: Any) -> Assessment:
    return assessment(tags=(ErrorTag(category=category, source=ErrorSource.JUDGE),), **more)


def test_tags_and_confidence_are_joined_and_the_reward_stays():
    found = assessed_record(record("crc", 0.5), [tagged("units", agreement=0.75)])
    assert found.evaluation is not None
    assert found.evaluation.reward == 0.5
    assert [(tag.category, tag.source) for tag in found.evaluation.error_taxonomy or ()] == [
        ("units", ErrorSource.JUDGE)
    ]
    confidence = found.evaluation.confidence
    assert confidence is not None
    assert (confidence.judges, confidence.judge_agreement, confidence.judge_unscored) == (("judge-1",), 0.75, None)


def test_the_latest_of_a_rubric_and_its_judges_counts():
    other = {"judges": (JudgeRef(model="judge-2"),), "number": 3}
    said = [tagged("old", number=1), tagged("new", number=2), tagged("theirs", **other)]
    evaluation = assessed_record(record("crc", 0.5), said).evaluation
    assert evaluation is not None
    assert [tag.category for tag in evaluation.error_taxonomy or ()] == ["new", "theirs"]
    assert evaluation.confidence is not None
    assert evaluation.confidence.judges == ("judge-1", "judge-2")


def test_a_category_is_one_however_judges_write_it(tmp_path):
    store = make_job(tmp_path / "job", record("crc", 0.5))
    store.add_assessment(tagged("Wrong unit", number=1))
    store.add_assessment(tagged("wrong_unit", number=2, rubric="other"))
    (trial,) = load_job(tmp_path / "job").trials
    assert trial.tags == ("judge:wrong_unit",)


def test_an_assessment_of_another_revision_says_nothing_of_this_one():
    before = record("crc", 0.5)
    assert assessed_record(before, [tagged("units", revision=1)]) == before


def test_a_trial_that_was_never_graded_has_no_place_for_it():
    failed = record("crc", BROKEN)
    assert assessed_record(failed, [tagged("units")]) == failed


def test_a_job_has_the_tags_of_judges_also_those_that_come_later(tmp_path):
    store = make_job(tmp_path / "job", record("crc", 0.5), record("sort", 1.0))
    job = load_job(tmp_path / "job")
    assert not job.assessments
    store.add_assessment(tagged("units"))
    job = read_reviews_again(job)
    assert [trial.tags for trial in job.trials] == [("judge:units",), ()]
    assert [trial.trial_id for trial in load_job(tmp_path / "job").where("tag=units").trials] == ["crc.oracle.1"]
    evaluation = job.record("crc.oracle.1").evaluation
    assert evaluation is not None
    assert [tag.category for tag in evaluation.error_taxonomy or ()] == ["units"]
    stored = store.revisions("crc.oracle.1")[-1].record.evaluation
    assert stored is not None
    assert stored.error_taxonomy is None


def test_only_trials_that_are_there_can_be_assessed(tmp_path):
    store = make_job(tmp_path / "job", record("crc", 0.5))
    with pytest.raises(JobError, match=r"similar: crc\.oracle\.1"):
        store.add_assessment(assessment("crc.oracle.9"))
    assert store.assessments() == {}


def test_a_line_that_is_damaged_is_told_and_costs_no_other(tmp_path):
    store = make_job(tmp_path / "job", record("crc", 0.5))
    store.add_assessment(assessment(number=1))
    path = store.path / "assessments.jsonl"
    path.write_bytes(path.read_bytes() + b'{"id": "torn')
    store.add_assessment(assessment(number=2))
    told: list[str] = []
    assert [each.id for each in store.assessments(told.append)["crc.oracle.1"]] == [f"{at:016x}" for at in (1, 2)]
    assert [line.split(": is damaged")[0] for line in told] == [f"{path}, line 2"]


VOTES = (Vote(judge="a", answer=True), Vote(judge="b", answer=False))
SPLIT = AssessedQuestion(id="units", kind="yes_no", unscored="the votes are split", split=True, votes=VOTES)


@pytest.mark.parametrize(
    ("reward", "more", "doubted"),
    [
        (1.0, {"score": 0.5}, True),
        (0.0, {"score": 1.0}, True),
        (1.0, {"score": 1.0}, False),
        (0.0, {"score": 0.5}, False),
        (1.0, {}, False),
        (None, {"score": 0.0}, False),
        (1.0, {"questions": (SPLIT,)}, True),
        (1.0, {"score": 0.0, "revision": 1}, False),
    ],
)
def test_judges_doubt_where_they_are_divided_or_find_otherwise_than_the_verifier(reward, more, doubted):
    found = trial("crc", "oracle", reward)
    assert is_doubted(found, [assessment(**more)], 1.0) is doubted
    job = memory_job([found])
    job.__dict__["assessments"] = {found.trial_id: [assessment(**more)], "gone.oracle.1": [assessment(score=0.0)]}
    assert job.doubted_by_judges == ({found.trial_id} if doubted else set())
