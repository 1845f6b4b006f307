"""Grades: what counts, what does not, and the reasons."""

import datetime as dt

import pytest

from seatrial.check.answers.chosen import NO_ANSWER
from seatrial.check.grade import fails, grade_of, regraded
from seatrial.model.check import CheckFinding, CheckOutcome, TaskCheck

PASSED = CheckOutcome(check="V2", status="passed", tried=6)


def finding(weight, code="x", **others) -> CheckFinding:
    return CheckFinding(check="V5", code=code, weight=weight, message="m", reproduce="r", **others)


def result(*findings: CheckFinding, why: str | None = None, outcomes=(PASSED,)) -> TaskCheck:
    grade, reasons = grade_of(outcomes, findings, why)
    return TaskCheck(
        task="t",
        name="t",
        digest="0" * 64,
        backend="fake",
        image="host",
        grade=grade,
        reasons=reasons,
        outcomes=outcomes,
        findings=findings,
        finished_at=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )


@pytest.mark.parametrize(
    ("weights", "grade"),
    [
        ([], "A"),
        (["note", "note"], "A"),
        (["minor"], "B"),
        (["major", "minor"], "C"),
        (["major", "major"], "C"),
        (["major"] * 3, "D"),
        (["critical"], "F"),
    ],
)
def test_the_heaviest_decide(weights, grade):
    assert result(*map(finding, weights)).grade == grade


@pytest.mark.parametrize("mark", ["accepted", "known"])
def test_what_is_accepted_or_known_does_not_count(mark):
    check = result(finding("critical", **{mark: True}))
    assert check.grade == "A"
    assert not fails(check, "minor")


@pytest.mark.parametrize(
    "outcome",
    [
        CheckOutcome(check="V5", status="error", reason="it fell"),
        CheckOutcome(check="V5", status="passed", tried=3, left_out=2),
    ],
)
def test_what_could_not_be_tried_is_no_a(outcome):
    check = result(outcomes=(outcome,))
    assert check.grade == "B"
    assert check.reasons[0].startswith("V5 ")


def test_a_skipped_check_is_no_fault():
    assert result(outcomes=(CheckOutcome(check="V3", status="skipped", reason="none shipped"),)).grade == "A"


def test_without_an_accepted_answer_it_is_a_b_also_after_a_baseline():
    check = result(finding("major"), why="no solution")
    assert (check.grade, len(check.reasons)) == ("C", 2)
    known = regraded(check, [finding("major", known=True)])
    assert known.grade == "B"
    assert known.reasons == ("there is no accepted answer to try variations of: no solution",)


@pytest.mark.parametrize(("least", "failing"), [("critical", False), ("major", True), ("minor", True)])
def test_findings_fail_from_a_weight_on(least, failing):
    assert fails(result(finding("major"), finding("note")), least) is failing


def test_a_task_that_could_not_be_judged_fails():
    assert fails(result().model_copy(update={"grade": None}), "critical")


def test_where_no_wrong_answer_was_tried_it_is_a_b():
    skipped = CheckOutcome(check="V5", status="skipped", reason="nothing in it can be changed")
    assert grade_of([skipped], [])[0] == "B"
    assert grade_of([skipped.model_copy(update={"reason": NO_ANSWER})], [])[0] == "A", "a service, or it is said"
