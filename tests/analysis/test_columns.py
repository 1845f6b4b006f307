"""Rows of trials: one for each, with what was never judged left empty."""

from seatrial.analysis.arms import arms_of
from seatrial.analysis.columns import COLUMNS, trial_rows
from seatrial.model.job import AgentOptions
from tests.analysis.memory_jobs import memory_job, trial

NAMES = [column.name for column in COLUMNS]


def rows(*jobs):
    return [dict(zip(NAMES, row, strict=True)) for row in trial_rows(arms_of(jobs))]


def test_names_are_unique_and_rows_are_by_arm_task_and_attempt():
    assert len(NAMES) == len({*NAMES})
    trials = [trial("b", "y", 1.0, 2), trial("b", "y", 1.0), trial("a", "x", 1.0), trial("a", "y", 0.0)]
    assert [row["trial_id"] for row in rows(memory_job(trials))] == ["a.y.1", "b.y.1", "b.y.2", "a.x.1"]


def test_what_was_not_judged_has_no_reward_and_did_not_fail():
    judged, broken, silent = rows(
        memory_job([trial("a", "x", 0.0), trial("b", "x", None), trial("c", "x", 0.0, outcome="verifier_error")])
    )
    assert (judged["scored"], judged["reward"], judged["passed"]) == (True, 0.0, False)
    for row in (broken, silent):
        assert (row["scored"], row["reward"], row["passed"]) == (False, None, None)
    assert broken["failure"] == "SandboxError: no space left"


def test_jobs_with_the_same_agent_have_arms_and_models_of_their_own():
    first = memory_job([trial("a", "x", 1.0)], agents=(AgentOptions(name="x", model="m1"),), name="one")
    second = memory_job([trial("a", "x", 0.0)], agents=(AgentOptions(name="x", model="m2"),), name="two")
    found = rows(first, second)
    assert [(row["arm"], row["job"], row["model"]) for row in found] == [
        ("x (one)", "one", "m1"),
        ("x (two)", "two", "m2"),
    ]
