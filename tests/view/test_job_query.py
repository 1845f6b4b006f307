"""Jobs by words and by state."""

import datetime as dt
from pathlib import Path

import pytest

from seatrial.view.cards import JobCard
from seatrial.view.job_query import JobQuery, read_job_query
from tests.analysis.memory_jobs import memory_job, trial


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
