"""SARIF reports: the fields that version 2.1.0 requires, places that exist, and findings that stay the same."""

import json

import pytest

from seatrial.check.sarif import sarif
from tests.check.test_grade import finding, result

TITLES = {"V2": "nothing earns nothing", "V5": "mutants are caught"}


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
