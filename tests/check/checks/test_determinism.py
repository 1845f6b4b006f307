"""V4: what counts as a difference, what it weighs, and a real verifier that looks at the calendar."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.check.cases import ORACLE, UNTOUCHED, CaseVerdict, CheckResult, Subject
from seatrial.check.checks.determinism import cases, findings
from tests.check.real_cases import judge_cases, subject_of, verdict, with_states
from tests.trial.support import ANSWER, Desk, open_desk, write_task

STATES = {UNTOUCHED: verdict(0.0), ORACLE: verdict(1.0), "golden/pass": verdict(1.0), "golden/fail": verdict(0.0)}


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return subject_of(write_task(tmp_path / "task", network=""), STATES)


def result(subject: Subject, **others: CaseVerdict) -> CheckResult:
    """What is found when all cases give the first verdict on their state, but for some, by their ids."""
    told: dict[str, CaseVerdict] = {}
    for case in cases(subject):
        usual = subject.states[case.state]
        told[case.id] = replace(others.get(case.id.removeprefix("V4/"), usual), case=case.id)
    return findings(subject, told)


def ids(found: CheckResult) -> dict[str, str]:
    return {finding.id: finding.weight for finding in found.findings}


def test_accepted_states_and_the_untouched_one_are_tried_once_each(subject):
    tried = list(cases(subject))
    assert len({case.id for case in tried}) == len(tried)
    assert [case.id for case in tried if "repeat" in case.id] == [
        *(f"V4/oracle/repeat-{number}" for number in range(2, 6)),
        "V4/golden/pass/repeat-2",
        "V4/untouched/repeat-2",
    ]
    assert not [case for case in tried if case.state == "golden/fail"]
    assert "V4/oracle/network" in {case.id for case in tried}


def test_a_verifier_that_stays_the_same_passes_with_its_figures(subject):
    found = result(subject)
    assert (found.outcome.status, list(found.findings)) == ("passed", [])
    assert found.outcome.figures["flake_rate"] == 0.0
    assert found.outcome.figures["repeated_runs"] == 9
    assert {each["verifier_reward_sd"] for each in found.outcome.figures["confidence"].values()} == {0.0}
    assert "Python programs only" in (found.outcome.reason or "")


def test_a_repeat_that_differs_is_flaky_with_an_interval_and_explains_the_rest(subject):
    (flaky,) = result(subject, **{"oracle/repeat-3": verdict(0.0), "oracle/date": verdict(0.0)}).findings
    assert (flaky.id, flaky.weight) == ("V4/flaky:oracle", "critical")
    assert "it gave 1, 1, 0, 1 and 1: 20% of runs differ from the others (95 % interval 4 to 62%)" in flaky.message
    assert flaky.reproduce == "seatrial check task --case V4/oracle/repeat-3"


@pytest.mark.parametrize(
    ("case", "other", "code", "weight"),
    [
        ("oracle/hash-seed-1", 0.0, "hash-seed", "critical"),
        ("oracle/directory-order-sorted", 0.0, "directory-order", "critical"),
        ("oracle/one-cpu", 0.5, "one-cpu", "critical"),
        ("oracle/network", 0.0, "network", "critical"),
        ("oracle/network", None, "network", "major"),
        ("oracle/date", 0.0, "date", "major"),
        ("oracle/time-zone", 0.0, "time-zone", "major"),
        ("oracle/locale", None, "locale", "major"),
        ("golden/pass/all-together", 0.0, "all-together", "major"),
        ("untouched/all-together", 0.5, "all-together", "minor"),
    ],
)
def test_a_condition_that_matters_is_named(subject, case, other, code, weight):
    (found,) = result(subject, **{case: verdict(other)}).findings
    state = case.rpartition("/")[0]
    assert (found.id, found.weight) == (f"V4/{code}:{state}", weight)
    assert found.reproduce.endswith(f"--case V4/{case}")
    assert found.fix


def test_both_values_of_one_condition_are_one_finding(subject):
    seeds = {f"oracle/hash-seed-{seed}": verdict(0.0) for seed in (1, 2)}
    assert list(ids(result(subject, **seeds))) == ["V4/hash-seed:oracle"]


def test_what_many_conditions_seem_to_do_is_dice(subject):
    others = {f"oracle/{name}": verdict(0.0) for name in ("date", "locale", "one-cpu")}
    (flaky,) = result(subject, **others).findings
    assert flaky.id == "V4/flaky:oracle"
    assert "21% of runs differ from the others" in flaky.message


def test_what_the_first_state_shows_is_not_said_again_of_others(subject):
    others = {"oracle/date": verdict(0.0), "golden/pass/all-together": verdict(0.0)}
    assert list(ids(result(subject, **others))) == ["V4/date:oracle"]


def test_our_own_file_is_no_finding_and_neither_is_what_it_disturbs(subject):
    disturbed = {f"oracle/{name}": verdict(0.0) for name in ("python-start", "date", "directory-order-sorted")}
    told = result(subject, **disturbed)
    assert ids(told) == {}
    assert "date and order do not count" in (told.outcome.reason or "")
    assert "date" not in told.outcome.figures["varied"]


def test_what_it_disturbs_on_one_state_it_may_disturb_on_all(subject):
    assert ids(result(subject, **{"golden/pass/all-together": verdict(0.0)}))
    both = {"oracle/python-start": verdict(0.0), "golden/pass/all-together": verdict(0.0)}
    assert ids(result(subject, **both)) == {}


@pytest.mark.parametrize(
    "odd", [verdict(0.0, timed_out=True), CaseVerdict("x", None, failure="no sandbox"), CaseVerdict("x", None)]
)
def test_what_came_to_no_end_is_not_compared(subject, odd):
    assert result(subject, **{"oracle/repeat-2": odd, "oracle/one-cpu": odd}).outcome.status == "passed"


def test_breakdowns_alone_are_minor_and_times_in_them_nothing(subject):
    states = {**STATES, ORACLE: verdict(1.0, breakdown={"a": {"score": 1}, "seconds": 1.0})}
    subject = subject_of(subject.task.root, states)
    assert ids(result(subject, **{"oracle/date": verdict(1.0, breakdown={"a": {"score": 1}, "seconds": 2.0})})) == {}
    found = result(subject, **{"oracle/date": verdict(1.0, breakdown={"a": {"score": 0}, "seconds": 2.0})})
    assert ids(found) == {"V4/breakdown:oracle": "minor"}
    assert "`a.score` (with a date 400 days later)" in found.findings[0].message
    other = verdict(1.0, breakdown={"a": {"score": 0}})
    again = result(
        subject,
        **{"oracle/date": other, "oracle/repeat-2": other, "untouched/repeat-2": verdict(0.0, breakdown={"a": 1})},
    )
    assert ids(again) == {"V4/breakdown:oracle": "minor"}
    assert "`a.score` (asked again)" in again.findings[0].message


def test_a_declared_network_is_not_taken_away(tmp_path):
    declared = subject_of(write_task(tmp_path / "task", network="public"), STATES)
    assert not [case for case in cases(declared) if case.id.endswith("/network")]


def test_without_a_second_verdict_nothing_is_claimed(tmp_path):
    root = write_task(tmp_path / "task")
    for states in ({}, {ORACLE: CaseVerdict("x", None, failure="no sandbox")}, {ORACLE: verdict(1.0)}):
        assert findings(subject_of(root, states), {}).outcome.status == "skipped"


CALENDAR = f"""#!/bin/sh
exec python3 - <<'END'
import datetime, pathlib
right = pathlib.Path("{ANSWER}").exists() and datetime.date.today() < datetime.date.fromtimestamp(NOW + 86400 * 30)
pathlib.Path("/logs/verifier/reward.txt").write_text(str(int(right)))
END
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    with open_desk(tmp_path_factory.mktemp("desk")) as opened:
        yield opened


def test_a_real_verifier_that_looks_at_the_calendar_is_caught_by_the_date_alone(desk, tmp_path):
    root = write_task(tmp_path / "task", files={"tests/test.sh": CALENDAR.replace("NOW", str(time.time()))})
    (tmp_path / "pass/app").mkdir(parents=True)
    (tmp_path / "pass/app/answer.txt").write_text("right\n")
    files: Mapping[str, Path] = {"golden/pass": tmp_path / "pass"}
    subject = with_states(desk, root, files)
    tried = [case for case in cases(subject) if case.id.endswith(("repeat-2", "date", "sorted", "python-start"))]
    found = findings(subject, judge_cases(desk, root, tried, files))
    assert ids(found) == {"V4/date:golden/pass": "major"}
