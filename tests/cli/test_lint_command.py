"""`seatrial lint`: exit codes, problems as lines or JSON, and notes on request."""

import json
from pathlib import Path

import pytest

from seatrial.tasks.lint import lint
from seatrial.tasks.load import load_task
from tests.cli.conftest import Seatrial, start
from tests.conftest import REPOSITORY, MakeTask

EXAMPLES = REPOSITORY / "examples" / "tasks"


@pytest.fixture
def dubious(make_task: MakeTask) -> Path:
    """A task with one warning and some notes: its instruction is empty."""
    return make_task("dubious", instruction=" \n")


def test_the_examples_are_clean(seatrial: Seatrial):
    shown = seatrial("lint", EXAMPLES)
    assert (shown.code, shown.out) == (0, "")
    assert shown.err.startswith(f"{len(list(EXAMPLES.iterdir()))} tasks: 0 errors, 0 warnings, ")


def test_a_warning_is_shown_but_does_not_fail(seatrial: Seatrial, dubious: Path):
    shown = seatrial("lint", dubious)
    assert shown.code == 0
    assert shown.out == (
        "dubious: warning[empty-instruction] instruction.md: the agent is told nothing\n    fix: say what to do\n"
    )
    assert ": 0 errors, 1 warning, " in shown.err


def test_an_error_exits_with_1(seatrial: Seatrial, make_task: MakeTask, tmp_path: Path):
    make_task("typo", files={"tests/test.sh": "#!/bin/sh\necho 1 > /logs/verifier/rewards.txt\n"})
    shown = seatrial("lint", tmp_path)
    assert shown.code == 1
    assert "typo: error[reward-near-miss] tests/test.sh: " in shown.out


def test_a_task_that_cannot_be_read_is_an_error_and_stops_no_other(
    seatrial: Seatrial, make_task: MakeTask, dubious: Path
):
    make_task("broken", toml="[agent]\ntimeout_sec = 'soon'\n")
    shown = seatrial("lint", dubious.parent)
    assert shown.code == 1
    assert [line.split(":")[0] for line in shown.out.splitlines() if not line.startswith(" ")] == ["broken", "dubious"]
    assert "task.toml: agent.timeout_sec: " in shown.out
    assert shown.err.startswith("2 tasks: 1 error, 1 warning, ")


def test_notes_are_shown_on_request(seatrial: Seatrial, dubious: Path):
    quiet, full = seatrial("lint", dubious), seatrial("lint", dubious, "--notes")
    assert "note[" not in quiet.out
    assert "dubious: note[no-solution] solution/solve.sh: " in full.out
    assert full.out.count("note[") == int(full.err.split(", ")[-1].split()[0]) > 0
    assert (quiet.code, quiet.err) == (full.code, full.err)


def test_json_is_one_object_per_problem(seatrial: Seatrial, dubious: Path):
    shown = seatrial("lint", dubious, "--json", "--notes")
    found = [json.loads(line) for line in shown.out.splitlines()]
    assert found == [{"task": "dubious", **problem.model_dump()} for problem in lint(load_task(dubious))]
    assert [json.loads(line)["severity"] for line in seatrial("lint", dubious, "--json").out.splitlines()] == [
        "warning"
    ]


def test_a_pipe_gets_no_colours(dubious: Path):
    shown = start("lint", dubious)
    assert "\x1b" not in shown.out
    assert "warning[empty-instruction]" in shown.out
