"""`seatrial init`: the new task passes lint, its golden answers are judged as they should be, and it runs."""

import json
import os
import shutil
import subprocess

import pytest

from seatrial.store.job_store import JobStore
from tests.cli.conftest import Seatrial, start
from tests.cli.test_gc_command import why_no_sandbox


@pytest.fixture
def task(seatrial: Seatrial, tmp_path):
    done = seatrial("init", tmp_path / "My task")
    assert done.code == 0
    assert f"seatrial run -p '{tmp_path}/My task' -a oracle -a noop" in done.out
    return tmp_path / "My task"


def test_it_passes_lint(seatrial: Seatrial, task):
    done = seatrial("lint", task)
    assert (done.code, done.err) == (0, "1 task: 0 errors, 0 warnings, 0 notes\n")


@pytest.mark.parametrize(("answer", "passes"), [("pass", True), ("fail", False)])
def test_its_golden_answers_are_judged_as_they_should_be(task, tmp_path, answer, passes):
    shutil.copytree(task / "golden" / answer, tmp_path / "desk")
    environment = {**os.environ, "KIT_ROOT": str(tmp_path / "desk")}
    subprocess.run(["sh", task / "tests/test.sh"], env=environment, check=True, timeout=60)
    reward = json.loads((tmp_path / "desk/logs/verifier/reward.json").read_text())["reward"]
    assert (reward == 1.0) is passes


@pytest.mark.whole
def test_only_its_solution_solves_it(task, tmp_path):
    if reason := why_no_sandbox():
        pytest.skip(f"embedded sandbox: {reason}")
    how = ("--image", "host", "--allow-partial-limits")  # the latter for ordinary users
    done = start("run", "-p", task, "-a", "oracle", "-a", "noop", *how, "-o", tmp_path / "job")
    assert done.code == 0, done.err
    assert {entry.agent: entry.reward for entry in JobStore.open(tmp_path / "job").entries()} == {
        "oracle": 1.0,
        "noop": 0.0,
    }


def test_nothing_is_overwritten(seatrial: Seatrial, task):
    (task / "instruction.md").write_text("mine")
    again = seatrial("init", task)
    assert (again.code, "is there already" in again.err) == (2, True)
    assert (task / "instruction.md").read_text() == "mine"
