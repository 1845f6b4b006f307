"""The taxonomy of failures: shares by task, evidence apart from failures, causes apart from verdicts."""

from dataclasses import replace

import pytest

from seatrial.analysis.arms import arms_of
from seatrial.analysis.failures import MOST_KINDS, taxonomy_of
from seatrial.analysis.loaded import load_job
from seatrial.model.evaluation import ErrorSource, ErrorTag, EvaluationResult, ValidityCheck
from seatrial.stats.estimates import estimate_mean
from tests.cli.job_folders import BROKEN, make_job, record
from tests.review.journals import said

VALID = ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True)


def judged(task, reward, *tags, agent="a", attempt=1):
    found = [ErrorTag(category=tag, source=source) for tag, source in tags] or None
    evaluation = EvaluationResult(reward=reward, validity=VALID, error_taxonomy=found)
    return record(task, reward, agent, attempt, evaluation=evaluation)


def taxonomy(folder, *records, attempts=1):
    make_job(folder / "job", *records, attempts=attempts)
    return taxonomy_of(arms_of([load_job(folder / "job")]))


UNITS, MISREAD = ("units", ErrorSource.MECHANICAL), ("misread", ErrorSource.JUDGE)
EVIDENCE = ("system_changed", ErrorSource.MECHANICAL)


def test_shares_are_means_over_tasks_of_scored_and_of_failed_trials(tmp_path):
    found = taxonomy(
        tmp_path,
        judged("t1", 0.0, UNITS, attempt=1),
        judged("t1", 1.0, attempt=2),
        judged("t2", 0.0, UNITS, MISREAD),
        judged("t3", 1.0),
        judged("t3", 0.0, attempt=2),
        attempts=2,
    )
    units, misread = found.failures
    assert (units.category, units.source, units.arm, units.trials, units.failed) == ("units", "mechanical", "a", 2, 2)
    assert units.of_scored == estimate_mean([[1.0, 0.0], [1.0], [0.0, 0.0]])
    assert units.of_failed == estimate_mean([[1.0], [1.0], [0.0]])
    assert units.examples == ("t1.a.1", "t2.a.1")
    assert (misread.source, misread.trials) == ("judge", 1)
    (total,) = found.totals
    assert (total.scored, total.failed, total.unclassified) == (5, 3, 1)


def test_what_a_run_noticed_is_evidence_and_classifies_no_failure(tmp_path):
    found = taxonomy(tmp_path, judged("t1", 1.0, EVIDENCE), judged("t2", 0.0, EVIDENCE))
    assert not found.failures
    (evidence,) = found.evidence
    assert (evidence.category, evidence.trials, evidence.failed) == ("system_changed", 2, 1)
    assert evidence.examples == ("t2.a.1",)
    assert found.totals[0].unclassified == 1


def test_trials_without_a_verdict_have_causes_and_are_in_no_share(tmp_path):
    found = taxonomy(
        tmp_path, record("t1", BROKEN, "a"), record("t2", "verifier_error", "a"), judged("t3", 0.0, UNITS, agent="a")
    )
    assert [(cause.outcome, cause.trials, cause.example) for cause in found.unjudged] == [
        ("infrastructure_error", 1, "t1.a.1"),
        ("verifier_error", 1, "t2.a.1"),
    ]
    assert found.unjudged[0].reason.startswith("SandboxError")
    assert found.failures[0].of_scored == estimate_mean([[1.0]])


def test_arms_are_beside_each_other_and_the_most_frequent_kind_is_first(tmp_path):
    found = taxonomy(
        tmp_path,
        judged("t1", 0.0, MISREAD),
        judged("t2", 0.0, UNITS),
        judged("t1", 0.0, UNITS, agent="b"),
    )
    assert [(count.category, count.arm) for count in found.failures] == [
        ("units", "a"),
        ("units", "b"),
        ("misread", "a"),
    ]


def test_steps_count_the_first_that_failed(tmp_path):
    arms = arms_of([load_job(make_job(tmp_path / "job", judged("t1", 0.0), judged("t2", 0.0)).path)])
    trials = tuple(trial._replace(failed_step="build") for trial in arms[0].trials)
    (step,) = taxonomy_of(arms_of([replace(arms[0].job, trials=trials)])).steps
    assert (step.step, step.trials, step.example) == ("build", 2, "t1.a.1")


def test_a_verifier_that_names_ever_new_categories_makes_no_endless_table(tmp_path):
    tags = [(f"c{index:02}", ErrorSource.HUMAN) for index in range(30)]
    found = taxonomy(tmp_path, judged("t1", 0.0, *tags[:15]), judged("t2", 0.0, *tags[15:]))
    assert (len(found.failures), found.left_out) == (30, 0)
    more = [(f"d{index:02}", ErrorSource.HUMAN) for index in range(15)]
    found = taxonomy(
        tmp_path / "more", judged("t1", 0.0, *tags[:15]), judged("t2", 0.0, *tags[15:]), judged("t3", 0.0, *more)
    )
    assert (len(found.failures), found.left_out) == (MOST_KINDS, 5)


@pytest.mark.parametrize("records", [(), (record("t1", BROKEN, "a"),)])
def test_nothing_judged_is_no_share(tmp_path, records):
    found = taxonomy(tmp_path, *records)
    assert not found.failures
    assert found.totals[0].scored == 0


def test_one_category_is_one_row_however_it_is_written_and_by_whom(tmp_path):
    store = make_job(
        tmp_path / "job",
        judged("t1", 0.0, ("wrong clause", ErrorSource.JUDGE), ("Wrong Clause", ErrorSource.MECHANICAL)),
        judged("t2", 0.0, ("wrong-clause ", ErrorSource.JUDGE), ("wrong_clause", ErrorSource.JUDGE)),
        judged("t3", 0.0),
    )
    store.add_reviews(said("t3.a.1", "ada", "f", categories=["wrong clause"]))
    job = load_job(store.path)
    first, other = taxonomy_of(job.arms).failures
    assert (first.category, first.source, first.trials) == ("wrong_clause", "human, judge, mechanical", 3)
    assert (other.category, other.trials) == ("wrong-clause", 1)
    for wanted in ("tag=wrong_clause", "tag=wrong clause", "tag=Wrong Cl*"):
        assert [trial.task_id for trial in job.where(wanted).trials] == ["t1", "t2", "t3"]
    assert [trial.task_id for trial in job.where("tag=human:wrong clause").trials] == ["t3"]


def test_a_verifier_cannot_say_what_a_run_knows_by_another_spelling(tmp_path):
    found = taxonomy(tmp_path, judged("t1", 0.0, ("Program changed", ErrorSource.MECHANICAL)))
    assert not found.evidence
    assert [count.category for count in found.failures] == ["verifier_program_changed"]
