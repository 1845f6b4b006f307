"""Behaviour as figures: who is compared with whom, what a gap does, and what is counted."""

from typing import Any

import pytest

from seatrial.analysis.behaviour import ClassifiedTrial, behaviour_figures, classified_trials, likeness_to_passed
from seatrial.jobs.turns import MECHANICAL, TrialTurns, classified
from seatrial.model.assessment import AssessedQuestion, Assessment, JudgeRef, TurnRef, Unscored, Vote
from seatrial.store.index import entry_of
from tests.jobs.samples import evaluation, record

LETTERS = {"v": "verification", "x": "exploration", "d": "deliberation", "e": "execution"}


def question(at: int, letter: str, thread: str = "main", confidence: float = 0.9) -> AssessedQuestion:
    """A turn that is classified; `-` for one that is unscored."""
    missing = Unscored(code="missing", message="not answered")
    vote = (
        Vote(judge="j", unscored=missing)
        if letter == "-"
        else Vote(judge="j", answer=LETTERS[letter], confidence=confidence)
    )
    return AssessedQuestion(
        id=f"turn_{at}",
        kind="choice",
        weight=0.0,
        answer=vote.answer,
        unscored="missing" if letter == "-" else None,
        turn=TurnRef(call=at, thread=thread),
        votes=(vote,),
    )


def trial(attempt: int, letters: str, reward: float = 1.0, task: str = "add", **changes: Any) -> ClassifiedTrial:
    made = record(task, attempt, evaluation=evaluation(reward))
    questions = tuple(question(at, letter) for at, letter in enumerate(letters))
    empty = classified(made, TrialTurns(()))
    found = empty.model_copy(update={"questions": questions, **changes})
    return ClassifiedTrial(entry_of(made, "noop"), found)


def test_a_trial_is_compared_with_the_other_passed_trials_of_its_task_and_never_with_itself():
    trials = [
        trial(1, "xexv"),
        trial(2, "xxev"),
        trial(3, "eeee", 0.0),
        trial(1, "xexv", task="alone"),
        trial(2, "xexv", 0.0, task="alone"),
        trial(1, "xe", 0.0, task="never"),
    ]
    found = likeness_to_passed(trials)
    assert {trial_id: alike.others for trial_id, alike in found.items()} == {
        "add.noop.1": 1,
        "add.noop.2": 1,
        "add.noop.3": 2,
        "alone.noop.2": 1,
    }
    assert found["add.noop.1"].distance == 2


def test_shares_are_means_over_tasks():
    trials = [trial(1, "eeee"), trial(2, "eexx"), trial(1, "xx", task="sort")]
    (figures,) = behaviour_figures("noop", trials)
    assert (figures.trials, figures.turns) == (3, 10)
    assert figures.shares["execution"].value == pytest.approx(0.375)  # add has 0.75, sort 0
    assert figures.shares["execution"].groups == 2
    assert sum(share.value for share in figures.shares.values()) == pytest.approx(1.0)


def test_an_unscored_turn_ends_a_stretch_and_is_in_no_share():
    found = trial(1, "ex-ve")
    assert found.threads == [["execution", "exploration"], ["verification", "execution"]]
    (figures,) = behaviour_figures("noop", [found])
    assert (figures.unscored, figures.shares["execution"].value) == (1, 0.5)
    rows = dict(zip(("verification", "exploration", "deliberation", "execution"), figures.matrix, strict=True))
    assert rows["exploration"] is None
    assert rows["verification"] == (0.0, 0.0, 0.0, 1.0)


def test_no_transition_crosses_threads():
    one, other = question(0, "e"), question(1, "v", "sub-agent 1")
    found = trial(1, "", questions=(one, other))
    assert found.threads == [["execution"], ["verification"]]
    assert found.sequence == ["execution"]


def test_the_confidence_of_several_votes_counts_those_that_disagree():
    votes = (
        Vote(judge="a", answer="execution", confidence=0.9),
        Vote(judge="b", answer="execution", confidence=0.6),
        Vote(judge="c", answer="exploration", confidence=1.0),
    )
    made = question(0, "e").model_copy(update={"votes": votes})
    assert made.confidence == pytest.approx(0.5)
    assert trial(1, "", questions=(made,)).low == 1


def test_rules_come_first_and_the_latest_of_each_source_counts():
    rules, judges = trial(1, "e").assessment, trial(1, "x", judges=(JudgeRef(model="j"),)).assessment
    later = rules.model_copy(update={"id": "f" * 16, "revision": 3})
    other = Assessment.model_validate({**rules.model_dump(), "rubric": "units"})
    entry = trial(1, "e").trial
    found = classified_trials([entry], {entry.trial_id: [judges, rules, later, other]})
    assert [(each.source, each.assessment.revision) for each in found] == [(MECHANICAL, 3), ("j", 0)]
    assert classified_trials([entry], {}) == []
