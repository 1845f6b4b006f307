"""`seatrial power`: from a job's own variance, or from a number, in words that say what they rest on."""

import json

import pytest

from tests.cli.conftest import Seatrial, cells
from tests.cli.job_folders import make_job, record


@pytest.fixture
def job(tmp_path):
    """Two agents, two attempts at each of four tasks: one is sure of what it does, the other is not."""
    sure = [record(f"t{index}", float(index % 2), "sure", attempt) for index in range(4) for attempt in (1, 2)]
    coin = [record(f"t{index}", float(attempt == 1), "coin", attempt) for index in range(4) for attempt in (1, 2)]
    make_job(tmp_path / "job", *sure, *coin, attempts=2)
    return tmp_path / "job"


def test_from_two_agents(seatrial: Seatrial, job):
    shown = seatrial("power", job, "--difference", "0.1")
    assert shown.code == 0
    lines = shown.out.splitlines()
    needed = cells(next(line for line in lines if line.startswith("2 ")))[2]
    assert lines[0] == f"To see 10.0 points takes {needed} tasks with 2 attempts each; 4 tasks show nothing."
    assert "B - A varies as the differences of these two agents do" in lines
    assert "variance of a reward: 0.3333 between tasks (100%), 0.0000 between attempts at one task (0%)" in shown.out
    at = next(index for index, line in enumerate(lines) if line.startswith("attempts"))
    assert cells(lines[at]) == ["attempts", "sd of B - A", "tasks for 10.0 points", "4 tasks show"]
    assert [cells(line)[0] for line in lines[at + 1 : at + 5]] == ["1", "2", "4", "8"]
    assert "4 tasks show nothing, with any number of attempts: it takes 6 at least" in shown.out


def test_from_one_agent_the_worst_case_is_said(seatrial: Seatrial, job):
    shown = seatrial("power", job, "--agent", "sure", "--tasks", "100")
    assert "assumed: another agent that varies as much, on its own; the worst case" in shown.out
    assert "100 tasks show" in shown.out
    half = seatrial("power", job, "--agent", "sure", "--correlation", "0.5")
    assert "with a correlation of 0.5 between tasks" in half.out


def test_without_a_job(seatrial: Seatrial):
    shown = seatrial("power", "--sd", "0.5", "--tasks", "50")
    row = next(cells(line) for line in shown.out.splitlines() if line.startswith("1 "))
    assert row == ["1", "0.500", "787", "20.2 points"]
    answer = "To see 5.0 points takes 787 tasks with 1 attempt each"
    assert shown.out.startswith(f"{answer}; 50 tasks show 20.2 points.")
    assert seatrial("power", "--sd", "0.5", "--tasks", "800").out.startswith(f"{answer}: 800 tasks are enough.")


def test_a_difference_beyond_the_range_is_none(seatrial: Seatrial):
    shown = seatrial("power", "--sd", "2", "--tasks", "8")
    row = next(cells(line) for line in shown.out.splitlines() if line.startswith("1 "))
    assert row == ["1", "2.000", "12,561", "nothing"]


def test_as_json(seatrial: Seatrial, job):
    shown = json.loads(seatrial("power", job, "--json").out)
    assert shown["variance"]["source"] == "two agents"
    assert shown["agents"].keys() == {"sure", "coin"}
    assert [row["attempts"] for row in shown["rows"]] == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "give a job folder to take the variance from, or --sd"),
        (("job", "--sd", "0.5"), "not both"),
        (("--sd", "0.5", "--power", "0.02"), "0.02 is not in the range"),
        (("--sd", "0.5", "--level", "0.9999999999999999"), "is not in the range"),
        (("job", "--correlation", "0.5"), "--correlation is about another agent"),
        (("job", "--agent", "x"), "has no agent 'x'; it has sure, coin"),
        (("job", "--agent", "a", "--agent", "b", "--agent", "c"), "3 agents are named"),
    ],
)
def test_what_cannot_be_asked(seatrial: Seatrial, job, monkeypatch, arguments, said):
    monkeypatch.chdir(job.parent)
    shown = seatrial("power", *arguments)
    assert (shown.code, said in shown.err) == (2, True)
