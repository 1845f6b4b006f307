"""A loaded job: what counts is decided once, and the labels of its tasks are at hand."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.arms import COLUMNS, trial_rows
from seatrial.analysis.failures import taxonomy_of
from seatrial.analysis.figures_json import arms_json
from seatrial.analysis.loaded import (
    KEYS,
    first_ratings,
    human_tags,
    load_job,
    parse_filter,
    review_confidence,
    standing,
)
from seatrial.errors import JobError, UsageError
from seatrial.model.evaluation import ClaimedAgreement, ConfidenceMetadata, ErrorSource
from seatrial.model.job import TaskLabels
from seatrial.model.record import VerifierRun
from seatrial.store.index import TrialEntry
from tests.analysis import in_memory
from tests.analysis.in_memory import entry
from tests.cli.job_folders import BROKEN, make_job, record
from tests.review.journals import reviewed_job, said, taken_back

SILENT = VerifierRun(exit_code=1, duration_sec=0.1, isolation="guarded", baseline="silent")


def test_a_job_is_read_with_its_summary(tmp_path):
    make_job(tmp_path / "job", record("a", 1.0), record("b", 0.0), record("b", BROKEN, "noop"))
    job = load_job(str(tmp_path / "job"))
    assert (job.name, job.path, job.threshold) == ("job", tmp_path / "job", 1.0)
    assert [trial.trial_id for trial in job.trials] == ["a.oracle.1", "b.noop.1", "b.oracle.1"]
    assert job.summary.agents["oracle"].mean == 0.5
    assert job.summary.agents["noop"].mean is None
    assert job.labels_of("a") == job.labels_of("no such task") == TaskLabels()


def test_no_trial_of_a_task_with_a_broken_verifier_counts(tmp_path):
    broken = record("a", "verifier_error", "noop", verifier_run=SILENT)
    make_job(tmp_path / "job", record("a", 1.0), broken, record("b", 1.0))
    job = load_job(tmp_path / "job")
    assert {trial.trial_id: trial.outcome for trial in job.trials} == {
        "a.noop.1": "verifier_error",
        "a.oracle.1": "verifier_error",
        "b.oracle.1": "pass",
    }
    assert job.summary.broken_tasks == ("a",)


def test_a_folder_without_a_job_is_named(tmp_path):
    with pytest.raises(JobError, match="nothing-here"):
        load_job(tmp_path / "nothing-here")


@pytest.fixture
def mixed(tmp_path):
    records = [record("a", 1.0), record("b", 0.0), record("b", BROKEN, "noop"), record("a", 0.0, "noop", 2)]
    make_job(tmp_path / "job", *records, attempts=2, missing_tasks=1)
    return load_job(tmp_path / "job")


def test_a_filter_by_what_trials_became_leaves_none_open(mixed):
    failed = mixed.where("outcome=fail")
    assert [trial.trial_id for trial in failed.trials] == ["a.noop.2", "b.oracle.1"]
    assert failed.shown == "2 of 4 finished trials, those where outcome=fail"
    assert (failed.summary.total.planned, failed.summary.total.open) == (2, 0)
    assert mixed.shown is None


def test_a_filter_by_what_was_planned_counts_what_is_open(mixed):
    noop = mixed.where("agent=noop")
    assert {*noop.summary.agents} == {"noop"}
    assert (noop.summary.total.planned, noop.summary.total.finished, noop.summary.total.open) == (6, 2, 4)
    one = mixed.where("task=a", "attempt=2")
    assert (one.summary.total.planned, one.summary.total.open) == (2, 1)


def test_filters_add_up(mixed):
    both = mixed.where("task=b").where("outcome=fail")
    assert [trial.trial_id for trial in both.trials] == ["b.oracle.1"]
    assert both.shown == "1 of 4 finished trials, those where task=b,outcome=fail"
    assert mixed.where() is mixed


def test_a_trial_that_was_judged_again_has_the_threshold_of_that():
    trials = [entry("a", 0.6, revision=1, pass_threshold=0.5), entry("b", 0.6)]
    job = in_memory.job("x", trials)
    assert [job.threshold_of(trial) for trial in trials] == [0.5, 1.0]
    assert (job.thresholds, in_memory.job("y", []).thresholds) == ((0.5, 1.0), (1.0,))
    column = [each.name for each in COLUMNS].index("pass_threshold")
    assert [row[column] for row in trial_rows(job.arms)] == [0.5, 1.0]
    both, one = (arms_json(each.arms, {"oracle": each.arms[0].figures}) for each in (job, job.where("task=a")))
    assert (both[0]["pass_threshold"], one[0]["pass_threshold"]) == (None, 0.5)


LABELS = TaskLabels(category="sorting", difficulty="hard", family="sort", tags=("lists", "slow"))


def trial(task="sort-1", **changes: Any) -> TrialEntry:
    plain = TrialEntry(f"{task}.oracle.2", task, "oracle", 2, "partial", 0.5, 3, 61.0, None, None)
    return plain._replace(
        **{
            "input_tokens": 900,
            "output_tokens": 200,
            "cost_usd": 1.5,
            "tags": ("judge:off_by_one", "mechanical:no_output"),
            "warnings": ("agent-never-ran",),
            "failed_step": "second",
            "revision": 1,
            **changes,
        }
    )


FITTING = """
outcome=partial; outcome=p*; outcome!=pass; outcome=pass|partial; outcome = partial , task = sort-1
task=sort-*; task!=add*; agent=oracle; agent=or?cle; trial=sort-1.*; attempt=2; attempt=[12]; attempt>1; attempt=1|2
tag=off_by_one; tag=judge:*; tag=judge:off_by_one; tag!=no_such; task_tag=slow; task_tag!=quick; category=sorting
difficulty=hard|easy; family=s*; step=second; warning=agent-*; revision=1; revision>=1; disputed=no; disputed!=yes
reward<0.6; reward<=0.5; reward>=0.5; reward>0.4; reward=0.5; reward=.50; reward!=1; reward=*; cost>1; time>60
tokens>1000; tokens=1100; tries>1
"""
OTHER = """
outcome=fail; outcome!=partial; outcome=pass|fail; outcome=partial,task=add; task=Sort-1; task!=sort-1|x; agent=o
attempt=1; tag=off; tag!=judge:*; tag=judge; task_tag=quick; category!=sorting; family=sor; step=first; warning=x
revision=0; disputed=yes; reward<0.5; reward>0.5; reward!=0.5; cost<1.5; time>61; tokens<1100; tries=1; cost!=*
"""


def filters(text: str) -> list[str]:
    return [each.strip() for each in text.replace("\n", ";").split(";") if each.strip()]


@pytest.mark.parametrize("text", filters(FITTING))
def test_trials_that_fit(text):
    assert parse_filter(text).fits(trial(), LABELS)


@pytest.mark.parametrize("text", filters(OTHER))
def test_trials_that_do_not(text):
    assert not parse_filter(text).fits(trial(), LABELS)


@pytest.mark.parametrize("key", ["reward", "cost", "time", "tokens"])
def test_what_is_not_known_is_neither_less_nor_more(key):
    names = {"reward": ["reward"], "cost": ["cost_usd"], "time": ["duration_sec"]}
    unknown = trial(**dict.fromkeys(names.get(key, ["input_tokens", "output_tokens"])))
    assert not parse_filter(f"{key}<1").fits(unknown)
    assert not parse_filter(f"{key}>=0").fits(unknown)
    assert parse_filter(f"{key}!=*").fits(unknown)


def test_filters_of_a_task_without_labels():
    assert not parse_filter("category=*").fits(trial())
    assert parse_filter("category!=*,task_tag!=*").fits(trial())


def test_commas_and_bars_in_names():
    odd = trial("a,b|c\\d[1]")
    assert parse_filter(r"task=a\,b\|c\\d[1]").fits(odd)
    assert parse_filter(r"task=nothing|a\,*").fits(odd)


def test_several_filters_must_all_hold():
    both = parse_filter("outcome=partial", "task=sort-*,attempt=2")
    assert both.fits(trial())
    assert not both.fits(trial(outcome="fail"))
    assert str(both) == "outcome=partial,task=sort-*,attempt=2"
    assert parse_filter().fits(trial())
    assert not parse_filter()


def test_which_can_be_asked_before_a_trial_has_run():
    assert parse_filter("task=x,agent=y,attempt>1,category=z,trial=t").is_planned
    assert not parse_filter("task=x,reward>0").is_planned


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("outcom=fail", "there is no key 'outcom'; did you mean 'outcome'; keys are task, agent"),
        ("outcome=failed", "no outcome is like 'failed'; did you mean 'fail'; there are pass, partial"),
        ("disputed=maybe", "there are yes, no"),
        ("task=a,b", "'b' is no condition; write KEY=PATTERN, and KEY=ONE|OTHER for one or the other"),
        ("reward>much", "reward is a number, found 'much'"),
        ("reward=nan", "reward is a number, found 'nan'"),
        ("reward>1|2", "'>' takes one number, found 2"),
        ("task<3", "task is a word, so write task=PATTERN"),
        ("task=", "there is nothing after '='"),
        ("task=|", "there is nothing after '='"),
        ("", "a condition is empty"),
        ("task=a,", "a condition is empty"),
        (",", "a condition is empty"),
    ],
)
def test_complaints(text, complaint):
    with pytest.raises(UsageError) as raised:
        parse_filter(text)
    assert complaint in str(raised.value)


@given(st.lists(st.sampled_from([*KEYS, "=", "!=", "<", ">=", ",", "|", "\\", "1", "*", "[", "x", " "]), max_size=8))
def test_anything_is_a_filter_or_a_usage_error(words):
    try:
        found = parse_filter("".join(words))
    except UsageError:
        return
    assert found.fits(trial(), LABELS) in (True, False)
    assert parse_filter(str(found)) == found


@given(st.text(st.characters(exclude_characters="*?["), min_size=1).filter(lambda name: name == name.strip()))
def test_every_name_can_be_asked_for(name):
    quoted = name.replace("\\", "\\\\").replace(",", "\\,").replace("|", "\\|")
    wanted = parse_filter(f"task={quoted}")
    assert wanted.fits(trial(name))
    assert not parse_filter(f"task!={quoted}").fits(trial(name))


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


def test_confidence_is_that_of_the_trial_whatever_the_rest_of_the_job_is(tmp_path):
    rows = {"t1": "pp", "t2": "ff", "t3": "pf", "t4": "ff", "t5": "p"}
    entries = [said(f"{task}.oracle.1", "abc"[at], each) for task, row in rows.items() for at, each in enumerate(row)]
    job = reviewed_job(tmp_path / "job", dict.fromkeys(rows, 1.0), *entries)
    evaluations = {task: job.record(f"{task}.oracle.1").evaluation for task in rows}
    found = {task: each.confidence for task, each in evaluations.items() if each}
    assert found["t1"] == ConfidenceMetadata(annotator_count=2, inter_rater_agreement=1.0, agreement_metric="percent")
    assert found["t3"] == ConfidenceMetadata(annotator_count=2, inter_rater_agreement=0.0, agreement_metric="percent")
    assert found["t5"] == ConfidenceMetadata(annotator_count=1)


def test_pairs_of_reviewers_are_compared_by_what_they_said_before_they_knew_of_each_other():
    words = [said(TRIAL, "ada", "p"), said(TRIAL, "eve", "p"), said(TRIAL, "kim", "f"), said(TRIAL, "joe", "d")]
    found = review_confidence([*words, said(TRIAL, "kim", "p", 5, role="second_look")])
    assert found
    assert found.annotator_count == 3
    assert found.inter_rater_agreement == pytest.approx(1 / 3)


def test_the_claims_of_a_verifier_stay_beside_what_people_say():
    own = ConfidenceMetadata(
        annotator_count=3,
        inter_rater_agreement=0.8,
        agreement_metric="kappa",
        confidence_interval=(0.1, 0.2),
        sample_size=40,
        verifier_repeats=5,
    )
    kept = review_confidence([said(TRIAL, "ada", "p")], own)
    claimed = ClaimedAgreement(annotator_count=3, inter_rater_agreement=0.8, agreement_metric="kappa")
    interval = ConfidenceMetadata(confidence_interval=(0.1, 0.2), sample_size=40, verifier_repeats=5)
    assert kept == interval.model_copy(update={"annotator_count": 1, "claimed": claimed})


def test_nobody_decided_changes_nothing():
    own = ConfidenceMetadata(annotator_count=3)
    assert review_confidence([said(TRIAL, "ada", "d")]) is None
    assert review_confidence([said(TRIAL, "ada", "d")], own) == own


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
