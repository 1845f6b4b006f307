"""CTRF: the required fields, nothing that its schema does not name, and counts that are those of the tests."""

import json

from hypothesis import given

from seatrial.report.formats.clean_text import utf8_text
from seatrial.report.formats.ctrf_tests import write_ctrf
from tests.report.formats.hostile import arms_named, mixed_arms, names, written

ROOT = {"reportFormat", "specVersion", "generatedBy", "results"}
SUMMARY = {"tests", "passed", "failed", "skipped", "pending", "other", "suites", "start", "stop", "duration", "extra"}
TEST = {"name", "status", "duration", "start", "stop", "suite", "message", "rawStatus", "tags", "retries", "extra"}
STATUSES = ("passed", "failed", "skipped", "pending", "other")


def read(arms):
    document = json.loads(written(write_ctrf, arms, "1.2"))
    check(document)
    return document["results"]


def check(document):
    """The rules of the schema: required fields, their types, and no others outside of `extra`."""
    assert {*document} == ROOT
    assert (document["reportFormat"], document["specVersion"]) == ("CTRF", "0.0.0")
    results = document["results"]
    assert {*results} == {"tool", "summary", "tests"}
    assert results["tool"] == {"name": "seatrial", "version": "1.2"}
    summary, tests = results["summary"], results["tests"]
    assert {*summary} == SUMMARY
    assert all(type(value) is int for name, value in summary.items() if name != "extra")
    assert summary["tests"] == len(tests) == sum(summary[status] for status in STATUSES)
    for test in tests:
        assert {"name", "status", "duration"} <= {*test} <= TEST
        assert test["name"]
        assert test["status"] in STATUSES
        assert all(type(test[name]) is int for name in ("duration", "start", "stop", "retries") if name in test)
        assert all(isinstance(each, str) for name in ("suite", "tags") for each in test[name])
    for status in STATUSES:
        assert summary[status] == sum(test["status"] == status for test in tests)


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
