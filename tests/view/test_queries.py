"""Jobs by words and by state."""

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.model.evaluation import Annotation, Judgment
from seatrial.model.review import ReviewEntry
from seatrial.view.library import JobCard
from seatrial.view.queries import PAGE, SORTS, JobQuery, TrialSelection, read_job_query, read_query, select_trials
from tests.analysis.memory_jobs import memory_job, trial
from tests.jobs.samples import NOON
from tests.report.sample_reports import hostile_job, sample_job


def card() -> JobCard:
    agents = memory_job([trial("t", "Claude Code", 1.0)]).summary.agents
    return JobCard(Path("/jobs/nightly-7"), "Bridge checks", dt.datetime.now(dt.UTC), 1, 1, agents, 0)


@pytest.mark.parametrize(
    ("asked", "fits"),
    [
        ({}, True),
        ({"find": " bridge CLAUDE "}, True),
        ({"find": "nightly-7"}, True),
        ({"find": "bridge codex"}, False),
        ({"state": "finished"}, True),
        ({"state": "running"}, False),
        ({"state": "running", "find": "bridge"}, False),
        ({"state": "no such state"}, True),
    ],
)
def test_every_word_and_the_state_have_to_fit(asked, fits):
    assert read_job_query(asked).fits("nightly-7", card(), "finished") is fits


def test_a_query_is_narrowed_by_either():
    assert not JobQuery().is_narrowed
    assert JobQuery(find="a").is_narrowed
    assert JobQuery(state="running").is_narrowed


JOB = memory_job(
    [
        trial("add", "oracle", 1.0, cost_usd=0.5, duration_sec=9.0),
        trial("add", "noop", 0.0, tags=("mechanical:no_output",), failed_step="build", duration_sec=1.0),
        trial("sort", "oracle", 0.5, disputed_reward=1.0, warnings=("no_model_call",), duration_sec=None),
        trial("sort", "noop", None),
    ]
)


def chosen(**asked: str) -> TrialSelection:
    return select_trials(JOB, read_query(asked), {})


def ids(**asked: str) -> list[str]:
    return [each.trial_id for each in chosen(**asked).trials]


def test_each_way_to_choose():
    assert ids(agent="noop") == ["sort.noop.1", "add.noop.1"]
    assert ids(task="AD") == ["add.noop.1", "add.oracle.1"]
    assert ids(outcome="pass,partial") == ["sort.oracle.1", "add.oracle.1"]
    assert ids(tag="no_output") == ids(tag="mechanical:no_output") == ids(tag="step: build") == ["add.noop.1"]
    assert ids(tag="no_model_call") == ["sort.oracle.1"]
    assert ids(where="reward<1,agent=oracle") == ["sort.oracle.1"]
    assert ids(find="SPACE left") == ["sort.noop.1"]
    assert ids(agent="noop", find="build") == ["add.noop.1"]
    assert ids(agent="nobody") == []


def test_the_worst_come_first_unless_an_order_is_asked_for():
    assert ids() == ["sort.oracle.1", "sort.noop.1", "add.noop.1", "add.oracle.1"]
    assert ids(sort="reward") == ["add.noop.1", "sort.oracle.1", "add.oracle.1", "sort.noop.1"]
    assert ids(sort="-reward") == ["add.oracle.1", "sort.oracle.1", "add.noop.1", "sort.noop.1"]
    assert ids(sort="time")[-1] == "sort.oracle.1" == ids(sort="-time")[-1]
    assert ids(sort="trial") == ["add.noop.1", "add.oracle.1", "sort.noop.1", "sort.oracle.1"]
    assert ids(sort="nonsense") == ids()


def test_what_reviewers_wrote_is_found():
    said = Annotation(
        reviewer_id="ann", timestamp=NOON, judgment=Judgment.FAIL, categories=["wrong/unit"], notes="Off by one"
    )
    reviews = {"add.oracle.1": [ReviewEntry(trial_id="add.oracle.1", annotation=said)]}
    for words in ("off by", "wrong/unit", "ONE unit"):
        assert [each.trial_id for each in select_trials(JOB, read_query({"find": words}), reviews).trials] == [
            "add.oracle.1"
        ]


def test_an_expression_that_makes_no_sense_is_told():
    found = chosen(where="rewrd<1")
    assert (found.count, found.of) == (0, 4)
    assert "did you mean 'reward'" in (found.trouble or "")


def test_pages():
    job = sample_job(tasks=40)  # 360 trials
    first, last, beyond = (select_trials(job, read_query({"page": page}), {}) for page in ("1", "4", "99"))
    assert (len(first.trials), first.pages, first.start) == (PAGE, 4, 0)
    assert (len(last.trials), last.start) == (60, 300)
    assert beyond.query.page == 4
    every = [t for n in range(1, 5) for t in select_trials(job, read_query({"page": str(n)}), {}).trials]
    assert len({t.trial_id for t in every}) == 360


NAMES = st.sampled_from(["agent", "outcome", "tag", "task", "where", "find", "sort", "page", "x"])


@given(st.dictionaries(NAMES, st.text(max_size=30)))
def test_no_address_breaks_it(asked):
    found = select_trials(hostile_job(), read_query(asked), {})
    assert 0 <= len(found.trials) <= found.count <= found.of
    assert set(found.query.chosen) <= set(asked)


@given(st.sampled_from([*SORTS, *(f"-{name}" for name in SORTS)]))
def test_every_order_keeps_every_trial(sort):
    job = sample_job()
    found = select_trials(job, read_query({"sort": sort, "page": "3"}), {})
    assert (found.count, len(found.trials)) == (216, 16)
