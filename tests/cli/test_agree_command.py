"""`seatrial agree`: the sentence, the tables, JSON for programs, and the exit codes of its gate."""

import json
import re
import shutil

import pytest

from tests.cli.conftest import Seatrial, cells
from tests.review.journals import reviewed_job, said

TASKS = {f"t{number}": float(number % 2) for number in range(8)}


@pytest.fixture
def job(tmp_path):
    entries = [
        said(f"{task}.oracle.1", who, "fp"[number % 2] if number else "p", categories=["unit\x1b[2J"])
        for number, task in enumerate(TASKS)
        for who in ("ada", "eve")
    ]
    return reviewed_job(tmp_path / "job", TASKS, *entries, said("t7.oracle.1", "eve", "f", 3)).path


def test_how_far_people_agree_and_what_they_make_of_the_verifier(seatrial: Seatrial, job):
    shown = seatrial("agree", job)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].startswith("2 reviewers looked at 8 of 8 trials. Cohen's κ is 0.750 (")
    assert lines[0].endswith("because there are two raters.")
    table = [cells(line) for line in lines]
    assert ["verifier pass", "3", "0"] in table
    assert ["verifier fail", "1", "3"] in table
    assert ["t0.oracle.1", "oracle", "0"] in table
    assert ["reviewers", "yes", "found 2, needed at least 2"] in table
    assert "Not ready: what people say should not be built on yet." in lines
    assert "\x1b" not in shown.out


def test_programs_get_the_same(seatrial: Seatrial, job):
    document = json.loads(seatrial("agree", job, "--json").out)
    assert document["overall"]["agreement"]["measures"]["cohen_kappa"]["value"] == pytest.approx(0.75)
    assert document["readiness"]["state"] == "closed"
    assert [each["trial_id"] for each in document["overall"]["verifier"]["wrong_fails"]] == ["t0.oracle.1"]


def test_copies_of_a_job_are_not_counted_twice(seatrial: Seatrial, job, tmp_path):
    shutil.copytree(job, tmp_path / "copy")
    for other in (job, tmp_path / "copy"):
        shown = seatrial("agree", job, other)
        assert shown.code == 2
        assert "annotations merge" in shown.err


def test_the_gate_says_1_for_not_ready_and_3_for_nobody_can_tell(seatrial: Seatrial, job, tmp_path):
    assert seatrial("agree", job, "--gate").code == 1
    unseen = reviewed_job(tmp_path / "unseen", {"t1": 1.0}).path
    shown = seatrial("agree", unseen, "--gate")
    assert (shown.code, shown.out) == (3, "Nobody has reviewed any of 1 trial.\n")
    assert re.fullmatch(r"Review them with: .* view \S+\n", shown.err)


@pytest.mark.parametrize("wrong", [["--level", "2"], ["--seed", "-1"]])
def test_what_cannot_be_computed_is_a_usage_error(seatrial: Seatrial, job, wrong):
    assert seatrial("agree", job, *wrong).code == 2


def test_damaged_lines_are_told(seatrial: Seatrial, job):
    with (job / "annotations.jsonl").open("a") as journal:
        journal.write("{\n")
    shown = seatrial("agree", job)
    assert (shown.code, "is damaged and left out" in shown.err) == (0, True)


def test_only_some_trials(seatrial: Seatrial, job):
    assert "looked at 2 of 2 trials" in seatrial("agree", job, "--where", "task=t1|t2").out


def test_a_job_that_cannot_be_read_is_no_verdict_of_the_gate(seatrial: Seatrial, job):
    (job / "trials").rename(job / "elsewhere")
    shown = seatrial("agree", job, "--gate")
    assert (shown.code, "trials: cannot be stored or read" in shown.err) == (2, True)
