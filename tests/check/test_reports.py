"""Baselines: what is known fails nothing, what is new does, and what is gone is said."""

import json
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.check.grade import fails
from seatrial.check.reports import CheckBaseline, junit, read_baseline, sarif, write_baseline
from seatrial.errors import UsageError
from seatrial.model.check import CheckOutcome
from tests.check.test_battery import PASSED, finding, result


def test_what_was_written_is_known_and_only_new_findings_count(tmp_path):
    path = tmp_path / "deep/known.json"
    old = result(finding("critical", "old"), finding("minor", "meant", accepted=True))
    assert write_baseline(path, [old]) == 1
    now = result(finding("critical", "old"), finding("major", "new"))
    marked = read_baseline(path).marked(now)
    assert [each.known for each in marked.findings] == [True, False]
    assert marked.grade == "C"
    assert not fails(read_baseline(path).marked(old), "minor")


def test_findings_of_another_task_are_not_known():
    check = result(finding("major"))
    assert CheckBaseline(known={"other": ("V5/x",)}).marked(check) == check


def test_what_is_gone_is_said_of_tasks_that_were_checked():
    baseline = CheckBaseline(known={"t": ("V5/x", "V5/y"), "not checked": ("V5/z",)})
    done = CheckOutcome(check="V5", status="failed", tried=6)
    assert baseline.gone([result(finding("major", "y"), outcomes=(done,))]) == {"t": ("V5/x",)}


@pytest.mark.parametrize("changed", [{"check": "V2"}, {"status": "skipped"}, {"left_out": 1}])
def test_what_was_not_looked_at_is_not_gone(changed):
    outcome = CheckOutcome(check="V5", status="passed", tried=6).model_copy(update=changed)
    assert not CheckBaseline(known={"t": ("V5/x",)}).gone([result(outcomes=(outcome,))])


def test_the_same_findings_make_the_same_file(tmp_path):
    one, two = finding("major", "a"), finding("minor", "b")
    write_baseline(tmp_path / "1", [result(one, two)])
    write_baseline(tmp_path / "2", [result(two, one)])
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


@pytest.mark.parametrize("content", [None, b"", b"[]", b'{"known": {"t": [1]}}'])
def test_what_is_no_baseline_is_refused_with_a_way_out(tmp_path, content):
    path = tmp_path / "known.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=r"known\.json.*--write-baseline"):
        read_baseline(path)


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


def test_what_was_not_run_or_left_out_is_told_beside_the_grade():
    left = CheckOutcome(check="V5", status="not_run", left_out=3, out_of_time=3, reason="why")
    check = result(outcomes=(PASSED, left)).model_copy(update={"out_of_time": 3})
    (suite,) = report(check)
    assert [(case.get("name"), case.find("skipped") is not None) for case in suite] == [
        ("is complete", True),
        ("V2 nothing earns nothing", False),
        ("V5 mutants are caught", True),
    ]
    (notice,) = run_of(check)["invocations"][0]["toolExecutionNotifications"]
    assert (notice["level"], "3 verifications" in notice["message"]["text"]) == ("warning", True)


@given(st.text())
def test_any_text_makes_a_report_that_can_be_read(text):
    outcome = V5.model_copy(update={"reason": text.encode(errors="replace").decode()})
    found = finding("major", subject=outcome.reason)
    (suite,) = report(result(found, outcomes=(outcome,)))
    assert suite.get("failures") == "1"


def run_of(*checks, folders=None):
    report = json.loads(sarif(checks, TITLES, folders or {}, "1.0"))
    assert report["version"] == "2.1.0"
    assert report["$schema"].endswith("/sarif-2.1.0.json")
    (run,) = report["runs"]
    return run


def test_it_has_what_every_report_must_have():
    run = run_of(result(finding("major")))
    driver = run["tool"]["driver"]
    assert (driver["name"], [rule["id"] for rule in driver["rules"]]) == ("seatrial", ["V2", "V5"])
    (found,) = run["results"]
    assert driver["rules"][found["ruleIndex"]]["id"] == found["ruleId"] == "V5"
    assert found["message"]["text"].startswith("t: m.")
    assert run["invocations"][0]["executionSuccessful"] is True


@pytest.mark.parametrize(
    ("weight", "level"), [("critical", "error"), ("major", "error"), ("minor", "warning"), ("note", "note")]
)
def test_weights_are_levels(weight, level):
    assert run_of(result(finding(weight)))["results"][0]["level"] == level


@pytest.mark.parametrize(
    ("folder", "check", "uri"),
    [
        ("tasks/my task", "V5", "tasks/my%20task/tests/test.sh"),
        ("./tasks/one/", "V11", "tasks/one/instruction.md"),
        ("/srv/tasks/one", "V5", "file:///srv/tasks/one/tests/test.sh"),
    ],
)
def test_the_place_is_a_file_of_the_task(folder, check, uri):
    found = finding("major").model_copy(update={"check": check})
    (location,) = run_of(result(found), folders={"t": folder})["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_a_finding_has_the_same_fingerprint_in_every_run():
    (found,) = run_of(result(finding("major", "any", subject="x")))["results"]
    assert found["partialFingerprints"] == {"seatrialFinding/v1": "t:V5/any:x"}


@pytest.mark.parametrize(("mark", "kind"), [("accepted", "inSource"), ("known", "external")])
def test_what_does_not_count_is_suppressed(mark, kind):
    (found,) = run_of(result(finding("major", **{mark: True})))["results"]
    assert found["suppressions"][0]["kind"] == kind
    assert "suppressions" not in run_of(result(finding("major")))["results"][0]


def test_a_task_that_could_not_be_judged_is_told():
    ungraded = result().model_copy(update={"grade": None, "reasons": ("no sandbox",)})
    (notice,) = run_of(ungraded)["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"] == "t could not be judged: no sandbox"
