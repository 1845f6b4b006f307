"""Assessments as stored: a vote says something, and of one rubric by the same judges the latest counts."""

import pytest
from pydantic import ValidationError

from seatrial.model.assessment import AssessedQuestion, Assessment, JudgeRef, Vote, current
from tests.analysis.test_assessed import assessment


def test_a_vote_has_an_answer_or_a_reason_why_there_is_none():
    with pytest.raises(ValidationError, match="a vote has an answer, or a reason"):
        Vote(judge="j")
    assert Vote(judge="j", answer=False).answer is False


@pytest.mark.parametrize("answer", [True, False, 3.0, "good", ("unit", "sign"), ()])
def test_every_kind_of_answer_is_read_as_it_was_stored(answer):
    question = AssessedQuestion(id="q", kind="yes_no", answer=answer, votes=(Vote(judge="j", answer=answer),))
    stored = assessment(questions=(question,)).model_dump_json(exclude_defaults=True)
    (found,) = Assessment.model_validate_json(stored).questions
    assert (found.answer, type(found.answer)) == (answer, type(answer))


def test_the_latest_of_one_rubric_and_the_same_judges_counts():
    other = (JudgeRef(model="judge-2"),)
    said = [
        assessment(number=1),
        assessment(number=2, judges=other),
        assessment(number=3),
        assessment(number=4, rubric="style"),
        assessment(number=5, revision=1),
    ]
    assert [each.id[-1] for each in current(said, 0)] == ["2", "3", "4"]
    assert [each.id[-1] for each in current(said)] == ["2", "4", "5"]
