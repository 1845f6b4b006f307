"""Judges as raters: compared with people as a whole and by question, bound to their versions, behind gates."""

import json
from typing import Any

import pytest

from seatrial.analysis.loaded import LoadedJob
from seatrial.model.assessment import AssessedQuestion, Assessment, JudgeRef, JudgeSampling, Vote
from seatrial.model.review import ReviewEntry
from seatrial.report.judges import (
    dissents_table,
    judge_headline,
    judge_lines,
    judges_table,
    labels_line,
    questions_table,
)
from seatrial.review.judges import JudgeFigures, judge_figures, judges_in_short, judges_json
from tests.analysis.memory_jobs import memory_job, trial
from tests.analysis.test_assessed import assessment
from tests.review.journals import said

TRIALS = 40
VOTE = (Vote(judge="judge-1", answer=True),)


def question(name: str, score: float | None, **more: Any) -> AssessedQuestion:
    values = {"id": name, "kind": "yes_no", "answer": score == 1.0, "score": score, "votes": VOTE}
    return AssessedQuestion(**{**values, **more})


def judged(
    passes: dict[int, float | None], people: dict[int, str], reviewers=("ada", "eve"), **more: Any
) -> tuple[LoadedJob, dict[str, list[Assessment]], dict[str, list[ReviewEntry]]]:
    """A job of which a judge scored some trials, and reviewers gave verdicts on some, all the same."""
    trials = [trial(f"t{number}", "x" if number % 2 else "y", 1.0) for number in range(TRIALS)]
    names = [each.trial_id for each in trials]
    assessments = {
        names[at]: [assessment(names[at], at + 1, score=score, questions=(question("units", score),), **more)]
        for at, score in passes.items()
    }
    reviews = {names[at]: [said(names[at], who, word) for who in reviewers] for at, word in people.items()}
    return job_of(trials, assessments, reviews), assessments, reviews


def job_of(trials, assessments, reviews) -> LoadedJob:
    job = memory_job(trials)
    job.__dict__["assessments"], job.__dict__["reviews"] = assessments, reviews
    return job


def right(wrong: tuple[int, ...] = (), labelled: int = TRIALS) -> tuple[dict[int, float | None], dict[int, str]]:
    """Every second trial is good; the judge is right but for some."""
    scores: dict[int, float | None] = {at: float((at % 4 < 2) != (at in wrong)) for at in range(TRIALS)}
    return scores, {at: "p" if at % 4 < 2 else "f" for at in range(labelled)}


def one(job: LoadedJob, **options: Any) -> JudgeFigures:
    (found,) = judge_figures([job], **options)
    assert json.loads(json.dumps(judges_json([found])))
    return found


def test_a_judge_is_compared_with_people():
    job, *_ = judged(*right(wrong=(0, 2, 3)))
    found = one(job)
    confusion = found.overall.figures.confusion
    assert (confusion.both_pass, confusion.only_verifier, confusion.only_people, confusion.both_fail) == (19, 2, 1, 18)
    assert confusion.precision
    assert confusion.precision.value == pytest.approx(19 / 21)
    kappa = found.overall.kappa
    assert kappa
    assert kappa.value == pytest.approx(0.85)
    assert found.overall.base_rate == 0.5
    assert set(found.agents) == {"x", "y"}
    assert [row[1:] for row in dissents_table(found).rows if row[0] == "score"] == [
        ("t2.y.1", "pass", "fail", "1"),
        ("t3.x.1", "pass", "fail", "1"),
        ("t0.y.1", "fail", "pass", "1"),
    ]
    assert "Cohen's κ 0.850" in judge_headline(found)
    assert "people pass 50.0% of these 40 trials" in judge_headline(found)


def test_another_prompt_rubric_model_or_number_of_samples_is_another_judge():
    job, assessments, reviews = judged(*right(labelled=4))
    changes: list[dict[str, Any]] = [
        {"prompt_digest": "b" * 64},
        {"rubric_digest": "c" * 64},
        {"judges": (JudgeRef(model="judge-2"),)},
        {"sampling": JudgeSampling(samples=3)},
    ]
    for number, change in enumerate(changes):
        assessments["t0.y.1"].append(assessment("t0.y.1", 100 + number, score=1.0, **change))
    found = judge_figures([job_of(job.trials, assessments, reviews)])
    assert [each.assessed for each in found] == [TRIALS, 1, 1, 1, 1]
    assert [each.overall.figures.confusion.trials for each in found] == [4, 1, 1, 1, 1]
    versions = [row[1] for row in judges_table(found).rows]
    assert versions[:3] == [
        "rubric aaaaaaaa, prompt aaaaaaaa",
        "rubric aaaaaaaa, prompt bbbbbbbb",
        "rubric cccccccc, prompt aaaaaaaa",
    ]
    assert versions[4].endswith("3 samples")


def test_the_latest_assessment_of_the_revision_that_counts_is_meant():
    job, assessments, reviews = judged({0: 1.0}, {0: "p"})
    assessments["t0.y.1"] += [assessment("t0.y.1", 50, score=0.0), assessment("t0.y.1", 51, score=1.0, revision=1)]
    confusion = one(job_of(job.trials, assessments, reviews)).overall.figures.confusion
    assert (confusion.only_people, confusion.trials) == (1, 1)


def test_what_is_unscored_is_neither_a_pass_nor_a_fail():
    scores, people = right()
    found = one(judged({**scores, 0: None}, people)[0])
    assert (found.assessed, found.scored, found.overall.figures.confusion.trials) == (40, 39, 39)


def test_questions_are_compared_with_categories_where_people_use_them_and_else_with_verdicts():
    trials = [trial(f"t{number}", "x", 1.0) for number in range(4)]
    no_unit = {"t0.x.1": True, "t1.x.1": True, "t2.x.1": False, "t3.x.1": False}
    assessments = {
        name: [
            assessment(
                name,
                number + 1,
                questions=(
                    question("units", float(not lacks), tag="Missing unit"),
                    question("sign", 1.0),
                    question("faults", None, kind="labels", answer=("wrong_method",) if lacks else ()),
                ),
            )
        ]
        for number, (name, lacks) in enumerate(no_unit.items())
    }
    reviews = {
        "t0.x.1": [said("t0.x.1", "ada", "f", categories=["missing_unit", "wrong_method"])],
        "t1.x.1": [said("t1.x.1", "ada", "f", categories=["other"])],
        "t2.x.1": [said("t2.x.1", "ada", "p")],
    }
    found = one(job_of(trials, assessments, reviews))
    named = {each.question: each for each in found.questions}
    units, sign, faults = named["units"], named["sign"], named["faults: wrong_method"]
    assert (units.category, sign.category, faults.category) == ("missing_unit", None, "wrong_method")
    assert [(each.figures.confusion.both_fail, each.figures.confusion.only_people) for each in (units, faults)] == [
        (1, 1),
        (1, 1),
    ]
    assert (sign.figures.confusion.both_pass, sign.figures.confusion.only_verifier) == (1, 2)
    assert [row[:3] for row in questions_table(found).rows] == [
        ("units", "category missing_unit", "3"),
        ("sign", "verdict", "3"),
        ("faults: wrong_method", "category wrong_method", "3"),
    ]
    assert found.overall.figures.judged == 0


def many(wrong: int = 0) -> LoadedJob:
    """A job of 160 trials that two people labelled."""
    names = [f"t{number}" for number in range(160)]
    trials = [trial(name, "x", 1.0) for name in names]
    good = [number % 2 == 0 for number in range(160)]
    assessments = {
        f"{name}.x.1": [assessment(f"{name}.x.1", at + 1, score=float(good[at] != (at < wrong)))]
        for at, name in enumerate(names)
    }
    reviews = {
        f"{name}.x.1": [said(f"{name}.x.1", who, "p" if good[at] else "f") for who in ("ada", "eve")]
        for at, name in enumerate(names)
    }
    return job_of(trials, assessments, reviews)


def test_a_judge_that_is_right_about_both_kinds_may_enter_an_aggregate():
    found = one(many(wrong=4))
    assert (found.ready.state, found.ready.reasons) == ("open", ())
    (line,) = judge_lines([found])
    assert "calibrated; passes 50.0%, corrected by people's labels 50.0%" in line
    (short,) = judges_in_short([found])
    assert short["calibrated"]
    assert short["pass_rate"] == 0.5


@pytest.mark.parametrize(
    ("job", "reasons"),
    [
        (judged(*right(labelled=8))[0], ("interval_width", "calibration_trials")),
        (judged(*right(), reviewers=("ada",))[0], ("annotators", "agreement")),
        (judged(*right(labelled=0))[0], ("annotators", "agreement", "interval_width", "calibration_trials")),
        (judged(dict.fromkeys(range(TRIALS), 1.0), {at: "p" if at else "f" for at in range(TRIALS)})[0], ()),
        (many(wrong=70), ("calibration_agreement",)),
    ],
    ids=["few labels", "one reviewer", "nobody", "passes everything", "often wrong"],
)
def test_a_closed_gate_is_named_and_no_rate_is_shown(job, reasons):
    found = one(job)
    assert found.ready.state != "open"
    assert set(reasons) <= {*found.ready.reasons}
    (line,) = judge_lines([found])
    assert f"not calibrated ({', '.join(found.ready.reasons)}); its scores are in no mean" in line
    assert "%" not in line
    (short,) = judges_in_short([found])
    assert (short["calibrated"], short["pass_rate"], short["corrected"]) == (False, None, None)
    assert short["reasons"]


def test_to_pass_everything_is_no_calibration_where_almost_everything_is_good():
    found = one(judged(dict.fromkeys(range(TRIALS), 1.0), {at: "p" if at else "f" for at in range(TRIALS)})[0])
    agreement = found.overall.figures.confusion.agreement
    assert agreement
    assert agreement.value > 0.95
    assert "calibration_agreement" in found.ready.reasons


def test_labels_that_are_needed_are_more_for_a_narrower_interval():
    job, *_ = judged(*right(wrong=(0, 2, 3, 21), labelled=24))
    wide, narrow = one(job, width=0.5), one(job, width=0.4)
    assert wide.labels_needed
    assert narrow.labels_needed
    assert wide.labels_needed < narrow.labels_needed
    assert wide.labels_needed <= 24 < narrow.labels_needed
    assert labels_line(wide).endswith(f": {wide.labels_needed}, and there are 24")
    assert f"about {narrow.labels_needed}, drawn by lot; there are 24" in labels_line(narrow)
    assert "cannot be said, since no number is enough" in labels_line(one(job, width=0.001))
    assert "fewer than two" in labels_line(one(judged(*right(labelled=1))[0]))


def test_a_job_that_no_judge_assessed_has_no_judges():
    assert judge_figures([job_of([trial("t", "x", 1.0)], {}, {})]) == ()
