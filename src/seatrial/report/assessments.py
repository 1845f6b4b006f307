"""Assessments as people read them: a line and a table for a trial, a row for each trial of a job."""

from collections.abc import Sequence

from seatrial.analysis.tables import Row, Table
from seatrial.model.assessment import Answer, AssessedQuestion, Assessment, current
from seatrial.report.text import counted, format_cost, harmless

Fact = tuple[str, str]

_LONGEST_REASON = 160
_NO_COST = "-"


def assessment_facts(assessments: Sequence[Assessment], revision: int) -> list[Fact]:
    """A line for each assessment that counts, and one for those of other revisions."""
    facts = [("assessment", _in_a_line(each)) for each in current(assessments, revision)]
    if others := sorted({each.revision for each in assessments} - {revision}):
        numbers = ", ".join(map(str, others))
        facts.append(("assessment", f"there are others, of revision {numbers}; the revision that counts is {revision}"))
    return [(label, harmless(value)) for label, value in facts]


def _in_a_line(assessment: Assessment) -> str:
    judges = ", ".join(judge.model for judge in assessment.judges)
    score = "no score" if assessment.score is None else f"score {_number(assessment.score)}"
    parts = [f"{assessment.rubric} by {judges}: {score}"]
    if assessment.unscored:
        parts.append(assessment.unscored)
    elif unscored := sum(question.is_unscored for question in assessment.questions):
        parts.append(f"{unscored} unscored")
    if assessment.split:
        parts.append(f"{counted(len(assessment.split), 'split')}: {', '.join(each.id for each in assessment.split)}")
    if assessment.agreement is not None:
        parts.append(f"agreement {_number(assessment.agreement)}")
    parts += assessment.cuts
    return "; ".join(parts)


def questions_table(assessments: Sequence[Assessment], revision: int) -> Table:
    """A row for each question of the assessments that count."""
    found = current(assessments, revision)
    rows = [_question(each, question, several=len(found) > 1) for each in found for question in each.every_question]
    return Table(("question", "answer", "score", "votes", "reason"), rows)


def _question(assessment: Assessment, question: AssessedQuestion, *, several: bool) -> Row:
    name = f"{assessment.rubric}: {question.id}" if several else question.id
    counting = sum(vote.unscored is None for vote in question.votes)
    votes = f"{counting} of {len(question.votes)}{', split' if question.split else ''}"
    return (
        harmless(name),
        harmless(answer_in_words(question)),
        "-" if question.score is None else _number(question.score),
        votes,
        harmless(_reason(question)),
    )


def answer_in_words(question: AssessedQuestion) -> str:
    """What the votes came to."""
    return "unscored" if question.is_unscored else _words(question.answer)


def _words(answer: Answer | None) -> str:
    match answer:
        case None:
            return "-"
        case bool():
            return "yes" if answer else "no"
        case float():
            return f"{answer:g}"
        case str():
            return answer
        case _:
            return ", ".join(answer) or "none"


def _reason(question: AssessedQuestion) -> str:
    if question.unscored:
        text = question.unscored
    else:
        counted_votes = [vote for vote in question.votes if vote.unscored is None and vote.reason]
        agreeing = [vote for vote in counted_votes if vote.answer == question.answer]
        text = next((vote.reason or "" for vote in (*agreeing, *counted_votes)), "")
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


TRIAL_COLUMNS = ("trial", "score", "unscored", "split", "cost", "")


def trial_row(trial_id: str, assessment: Assessment | None, remark: str) -> Row:
    """The row of a trial of a job, with what came of it if there is no assessment."""
    if assessment is None:
        return harmless(trial_id), "-", "-", "-", _NO_COST, harmless(remark)
    usage = assessment.usage
    return (
        harmless(trial_id),
        "-" if assessment.score is None else _number(assessment.score),
        str(sum(question.is_unscored for question in assessment.questions)),
        str(len(assessment.split)),
        _NO_COST if usage.cost_usd is None else format_cost(usage.cost_usd),
        harmless("; ".join(filter(None, (remark, ", ".join(tag.category for tag in assessment.tags))))),
    )


def _number(value: float) -> str:
    return f"{value:.4g}"
