"""`seatrial import`: what it prints, and what other commands make of the job."""

import json

import pytest

from tests.cli.conftest import Seatrial
from tests.integrations.samples import ERROR, rollout, write_verifiers


@pytest.fixture
def source(tmp_path):
    rows = [rollout(0, 1.0), rollout(0, 0.0), rollout(1, 1.0), rollout(1, 0.0, error=ERROR)]
    return write_verifiers(tmp_path / "out", *rows, avg_reward=0.5, pass_at_k={"1": 0.5}, pass_threshold=0.5)


def test_both_means_and_why_they_differ(seatrial: Seatrial, source, tmp_path):
    shown = seatrial("import", source, "-o", tmp_path / "job")
    assert shown.code == 0
    header, row, first, second, note = shown.out.splitlines()
    assert row.split() == ["verifiers", "0.5000", "0.7500", "3", "of", "4", "2"]
    assert first.startswith("verifiers: +0.1667 1 trial without a verdict is in no mean here")
    assert second.startswith("verifiers: +0.0833 tasks weigh the same here")
    assert note == "Note: its pass@k counts a reward from 0.5 on as passed"
    assert "4 trials of 2 tasks" in shown.err
    assert "stored mean" in header


def test_other_commands_read_it(seatrial: Seatrial, source, tmp_path):
    job = tmp_path / "job"
    assert seatrial("import", source / "results.jsonl", "-o", job).code == 0
    assert "0.750" in seatrial("show", job).out
    assert "from verifiers 0.3.1, results.jsonl line 1" in seatrial("show", job, "sums-0.verifiers.1").out
    assert "it is 5" in seatrial("calls", job, "sums-0.verifiers.1").out
    assert seatrial("import", source, "-o", tmp_path / "other").code == 0
    assert seatrial("compare", job, tmp_path / "other").code == 0
    assert seatrial("leaderboard", job).code == 0
    assert seatrial("agree", job).code == 0
    for name in ("report.html", "report.csv"):
        assert seatrial("report", job, "-o", tmp_path / name).code == 0
    for name in ("resume", "regrade"):
        refused = seatrial(name, job)
        assert (refused.code, "was imported" in refused.err) == (2, True)


def test_lines_that_are_left_out_are_named(seatrial: Seatrial, tmp_path):
    source = write_verifiers(tmp_path / "out", rollout(0, 1.0), "{", "[]")
    shown = seatrial("import", source, "-o", tmp_path / "job", "--json")
    assert shown.code == 1
    told = json.loads(shown.out)
    assert (told["trials"], [each["place"] for each in told["skipped"]]) == (
        1,
        ["results.jsonl line 2", "results.jsonl line 3"],
    )
    again = seatrial("import", source, "-o", tmp_path / "other")
    assert "Warning: results.jsonl line 2 is not JSON" in again.err


@pytest.mark.parametrize("asked", ["1", "1:0", "a:b", "nan:1", "0:inf"])
def test_a_range_that_is_none_is_refused(seatrial: Seatrial, source, tmp_path, asked):
    refused = seatrial("import", source, "-o", tmp_path / "job", "--reward-range", asked)
    assert (refused.code, "expected two numbers" in refused.err) == (2, True)


def test_a_range_of_rewards(seatrial: Seatrial, source, tmp_path):
    shown = seatrial("import", source, "-o", tmp_path / "job", "--reward-range", "-1:1")
    assert (shown.code, "rewards from -1 to 1 were mapped onto 0 to 1" in shown.out) == (0, True)
