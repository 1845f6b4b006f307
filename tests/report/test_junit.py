"""JUnit: a suite for each arm, a case for each trial, and counts that are those of the cases."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from seatrial.analysis.arms import arms_of
from seatrial.junit import xml_text
from seatrial.report.junit import write_junit
from seatrial.report.text import harmless
from tests.analysis.memory_jobs import memory_job, trial
from tests.report.hostile import NASTY, arms_named, mixed_arms, names, written
from tests.report.junit_schema import junit_faults
from tests.report.sample_reports import sample_job


def read(arms):
    text = written(write_junit, arms)
    assert [*junit_faults(text)] == []
    return ET.fromstring(text)  # noqa: S314 - our own


def test_a_low_reward_fails_a_broken_machine_is_an_error_and_no_verdict_is_skipped():
    first, second = read(mixed_arms())
    kinds = {case.get("name"): [child.tag for child in case] for suite in (first, second) for case in suite}
    assert kinds == {
        "t1.a.1": [],
        "t2.a.1": ["failure"],
        "t3.a.1": ["failure"],
        "t4.a.1": ["skipped"],
        "t1.b.1": ["error"],
        "t2.b.1": ["skipped"],
        "t3.b.1": ["skipped"],
        "t4.b.1": ["skipped"],
    }
    failure = first[1][0]
    assert failure.get("type") == "partial"
    assert failure.get("message") == (
        "partial: reward 0.5, 1 to pass; disputed: 1 on the system as the agent left it; first failed step: build; "
        "tags: judge:misread, mechanical:=units"
    )
    assert first[3][0].get("message") == "not run yet"
    assert second[2][0].get("message") == "cancelled"
    assert second[0][0].get("message") == "SandboxError: no space left"


def test_counts_are_those_of_the_cases_and_of_the_summary():
    arms = mixed_arms()
    root = read(arms)
    for suite, arm in zip(root, arms, strict=True):
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == sum(case.find(tag) is not None for case in suite)
        assert int(suite.get("tests")) == len(suite) == arm.figures.planned
        assert int(suite.get("failures")) == arm.figures.scored - arm.figures.counts.get("pass", 0)
        assert int(suite.get("errors")) == arm.figures.infrastructure
    assert root.attrib == {"name": "seatrial", "tests": "8", "failures": "2", "errors": "1", "time": "12.000"}
    assert root[0].get("timestamp") == "2026-05-01T12:00:00"
    assert root[0][0].get("time") == "2.000"


def test_a_filter_by_what_trials_became_has_no_skipped_ones():
    job = memory_job([trial("t1", "a", 0.0), trial("t2", "a", 1.0)], untried=["t3"])
    for became in ("outcome=fail", "outcome!=pass"):
        assert [case.get("name") for case in read(arms_of([job.where(became)]))[0]] == ["t1.a.1"]
    assert [case.get("name") for case in read(arms_of([job.where("task=t3|t1")]))[0]] == ["t1.a.1", "t3.a.1"]


@given(names)
def test_any_name_makes_a_report_that_can_be_read(name):
    (suite,) = read(arms_named(name))
    (case,) = suite
    assert case.get("classname") == f"agent.{xml_text(name)}"
    assert xml_text(harmless(name)) in case[0].get("message")


def test_what_would_end_a_section_or_an_element_is_text():
    (suite,) = read(arms_named(NASTY))
    assert len(suite) == 1
    assert "]]><script>" in suite[0][0].text
    assert written(write_junit, arms_named(NASTY)) == written(write_junit, arms_named(NASTY))


def test_a_whole_report_of_a_job_is_what_build_servers_read():
    assert len(read(arms_of([sample_job(6, 2)]))) == 3


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"<testsuites ", b"<testsuites skipped='9' "),
        (b'errors="1"', b'errors="2"'),
        (b"<testcase classname=", b"<testcase class="),
        (b'time="2.000"', b'time="2s"'),
        (b"<skipped", b"<pending"),
        (b'message="not run yet"', b'message=""'),
    ],
)
def test_the_rules_find_what_build_servers_trip_over(before, after):
    text = written(write_junit, mixed_arms())
    assert before in text
    spoilt = text.replace(before, after)
    assert [*junit_faults(spoilt)]
