"""Assessments in words: what a line and a row say, and that nothing in them is taken for a command of the terminal."""

from seatrial.model.assessment import AssessedQuestion, Unscored, Vote
from seatrial.report.assessments import assessment_facts, questions_table, trial_row
from tests.analysis.test_assessed import assessment

YES = Vote(judge="a", answer=True, reason="it\nhas \x1b[2J one")
NO = Vote(judge="b", answer=False, reason="it has none")
BAD = Vote(judge="c", unscored=Unscored(code="missing", message="it is not answered"))
UNITS = AssessedQuestion(id="units", kind="yes_no", answer=True, score=1.0, split=True, votes=(YES, NO, BAD))
SIGN = AssessedQuestion(id="sign", kind="yes_no", unscored="missing: it is not answered", votes=(BAD,))
LABELS = AssessedQuestion(id="faults", kind="labels", answer=("unit", "sign"), votes=(NO,))


def test_a_line_has_score_splits_agreement_and_cuts():
    found = assessment(questions=(UNITS,), score=0.75, agreement=0.5, cuts=("output /x: about 9 bytes are left out",))
    assert assessment_facts([found], 0) == [
        (
            "assessment",
            "report by judge-1: score 0.75; 1 split: units; agreement 0.5; output /x: about 9 bytes are left out",
        )
    ]


def test_an_assessment_of_another_revision_is_mentioned():
    (fact,) = assessment_facts([assessment()], 1)
    assert fact == ("assessment", "there are others, of revision 0; the revision that counts is 1")
    assert questions_table([assessment(questions=(UNITS,))], 1).rows == []


def test_a_row_has_the_reason_of_a_vote_that_agrees():
    rows = questions_table([assessment(questions=(UNITS, SIGN, LABELS))], 0).rows
    assert [row[:4] for row in rows] == [
        ("units", "yes", "1", "2 of 3, split"),
        ("sign", "unscored", "-", "0 of 1"),
        ("faults", "unit, sign", "-", "1 of 1"),
    ]
    assert rows[0][4].startswith("it has ")
    assert "\x1b" not in rows[0][4]
    assert rows[1][4] == "missing: it is not answered"


def test_the_row_of_a_trial_without_an_assessment_says_why():
    assert trial_row("crc.noop.1", None, "not assessed") == ("crc.noop.1", "-", "-", "-", "-", "not assessed")
    assert trial_row("x", assessment(questions=(UNITS, SIGN)), "")[:4] == ("x", "-", "1", "1")
