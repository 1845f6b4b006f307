"""CTRF: the required fields, nothing that its schema does not name, and counts that are those of the tests."""

import json

import pytest
from hypothesis import given
from jsonschema import Draft202012Validator, ValidationError

from seatrial.analysis.arms import arms_of
from seatrial.report.formats.clean_text import utf8_text
from seatrial.report.formats.ctrf_tests import write_ctrf
from tests.report.formats.ctrf_schema import CTRF_SCHEMA, STATUSES
from tests.report.formats.hostile import arms_named, mixed_arms, names, written
from tests.report.sample_reports import sample_job

CHECK = Draft202012Validator(CTRF_SCHEMA)


def read(arms):
    document = json.loads(written(write_ctrf, arms, "1.2"))
    check(document)
    return document["results"]


def check(document):
    """The schema, and what no schema can say: counts are those of the tests, and a test ends after it began."""
    CHECK.validate(document)
    summary, tests = document["results"]["summary"], document["results"]["tests"]
    assert summary["tests"] == len(tests)
    for status in STATUSES:
        assert summary[status] == sum(test["status"] == status for test in tests)
    assert summary["start"] <= summary["stop"]
    assert all(test["start"] <= test["stop"] for test in tests if "start" in test)


def test_outcomes_have_a_status_each_and_the_summary_counts_them():
    arms = mixed_arms()
    results = read(arms)
    assert {test["name"]: test["status"] for test in results["tests"]} == {
        "t1.a.1": "passed",
        "t2.a.1": "failed",
        "t3.a.1": "failed",
        "t4.a.1": "pending",
        "t1.b.1": "other",
        "t2.b.1": "other",
        "t3.b.1": "skipped",
        "t4.b.1": "pending",
    }
    agents = results["summary"]["extra"]["agents"]
    assert [(each["agent"], each["mean"]) for each in agents] == [(arm.label, arm.tally.mean) for arm in arms]


def test_times_are_milliseconds_and_what_was_not_judged_has_no_reward():
    results = read(mixed_arms())
    assert results["summary"]["stop"] - results["summary"]["start"] == 4000
    tests = {test["name"]: test for test in results["tests"]}
    full = tests["t2.a.1"]
    assert (full["stop"] - full["start"], full["duration"], full["suite"]) == (2000, 2000, ["a", "t2"])
    assert full["extra"]["reward"] == 0.5
    assert tests["t3.a.1"]["retries"] == 1
    assert [tests[f"t{number}.b.1"]["extra"]["reward"] for number in (1, 2, 3)] == [None, None, None]


@given(names)
def test_any_name_makes_a_document_that_can_be_read(name):
    (test,) = read(arms_named(name))["tests"]
    assert test["suite"] == ["agent", utf8_text(name)]
    assert test["extra"]["dimensions"] == {utf8_text(name): 0.5}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda document: document.pop("specVersion"),
        lambda document: document["results"]["summary"].pop("pending"),
        lambda document: document["results"]["summary"].update(start=1.5),
        lambda document: document["results"]["tests"][0].update(status="error"),
        lambda document: document["results"]["tests"][0].update(reward=1.0),
        lambda document: document["results"]["tests"][0].update(suite="a"),
    ],
)
def test_the_schema_finds_what_readers_refuse(spoil):
    document = json.loads(written(write_ctrf, mixed_arms(), "1.2"))
    spoil(document)
    with pytest.raises(ValidationError):
        CHECK.validate(document)


def test_a_whole_report_of_a_job_is_valid():
    results = read(arms_of([sample_job(6, 2)]))
    assert results["tool"] == {"name": "seatrial", "version": "1.2"}
    assert len(results["tests"]) == 36
