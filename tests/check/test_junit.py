"""JUnit reports: a suite for each task, a case for each check, and nothing that XML cannot hold."""

from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from seatrial.check.junit import junit
from seatrial.model.check import CheckOutcome
from tests.check.test_grade import PASSED, finding, result

TITLES = {"V2": "nothing earns nothing", "V5": "mutants are caught"}
V5 = CheckOutcome(check="V5", status="failed", tried=3)


def report(*checks, least="major"):
    return ET.fromstring(junit(checks, TITLES, least))  # noqa: S314 - our own


def test_a_suite_for_each_task_and_a_case_for_each_check():
    check = result(finding("major", "bad"), finding("minor", "odd"), outcomes=(PASSED, V5))
    (suite,) = report(check)
    assert (suite.tag, suite.get("name"), suite.get("tests"), suite.get("failures")) == ("testsuite", "t", "2", "1")
    passed, failed = suite
    assert (passed.get("classname"), passed.get("name"), len(passed)) == ("t", "V2 nothing earns nothing", 0)
    failure, told = failed
    assert (failure.tag, failure.get("type"), failure.get("message")) == ("failure", "major", "V5/bad: m")
    assert "reproduce: r" in (failure.text or "")
    assert "V5/odd (minor)" in (told.text or "")


def test_lighter_and_accepted_findings_fail_nothing():
    check = result(finding("major", accepted=True), finding("minor"), outcomes=(V5,))
    assert report(check)[0].get("failures") == "0"
    assert report(check, least="minor")[0].get("failures") == "1"


def test_skipped_and_broken_checks_and_tasks_without_a_grade_are_told_apart():
    skipped = CheckOutcome(check="V2", status="skipped", reason="why")
    broken = CheckOutcome(check="V5", status="error", reason="it fell")
    (suite,) = report(result(outcomes=(skipped, broken)))
    assert (suite.get("skipped"), suite.get("errors")) == ("1", "1")
    ungraded = result(outcomes=()).model_copy(update={"grade": None, "reasons": ("no sandbox",)})
    (suite,) = report(ungraded)
    assert suite[0][0].get("message") == "no sandbox"
    assert suite.get("errors") == "1"


@given(st.text())
def test_any_text_makes_a_report_that_can_be_read(text):
    outcome = V5.model_copy(update={"reason": text.encode(errors="replace").decode()})
    found = finding("major", subject=outcome.reason)
    (suite,) = report(result(found, outcomes=(outcome,)))
    assert suite.get("failures") == "1"
