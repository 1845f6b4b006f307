"""`seatrial verify`: one end state judged, for whoever writes tests."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Seatrial, start
from tests.trial.support import ANSWER, SHELL_TEST, write_task

TALKS = f"{SHELL_TEST}\necho looked at it; echo careful >&2\n"
TURNS = """#!/bin/sh
n=$(od -An -N3 -tu4 /dev/urandom); echo "0.$((n % 10000000 + 10000000))" > /logs/verifier/reward.txt
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    return write_task(tmp_path / "task", files={"tests/test.sh": TALKS})


@pytest.fixture
def right(tmp_path: Path) -> Path:
    """Files as an author ships them: the right answer where it belongs."""
    answer = tmp_path / "right" / ANSWER.lstrip("/")
    answer.parent.mkdir(parents=True)
    answer.write_text("right\n")
    return tmp_path / "right"


def test_files_are_laid_over_the_untouched_environment(seatrial: Seatrial, task, right):
    shown = seatrial("verify", task, "--image", "host", "--state", right, "--expect", 1)
    assert (shown.code, shown.err) == (0, "")
    lines = shown.out.splitlines()
    assert lines[0] == "reward      1  (pass)"
    assert lines[-4:] == ["--- stdout", "looked at it", "--- stderr", "careful"]


def test_without_a_state_nobody_did_anything(seatrial: Seatrial, task):
    shown = seatrial("verify", task, "--image", "host", "--expect", 1, "--json")
    assert (shown.code, shown.err) == (1, "Not as it should be: --expect 1, and it gave 0\n")
    told = json.loads(shown.out)
    assert (told["reward"], told["rewards"], told["outcome"]) == (0.0, [0.0], "no_output")
    assert told["runs"][0]["stdout"] == ["looked at it"]


def test_a_trial_and_its_snapshot_are_judged_by_todays_tests(seatrial: Seatrial, task, tmp_path):
    job = tmp_path / "job"
    command = f"echo right > {ANSWER}"
    ran = seatrial("run", "-p", task, "--command", command, "--image", "host", "--keep", "snapshot", "-o", job, "-q")
    assert ran.code == 0
    trial = job / "trials/task.command.1"
    archive = (trial / "snapshot.tar.zst").read_bytes()
    (tmp_path / "alone.tar.zst").write_bytes(archive)
    (task / "tests/test.sh").write_text(SHELL_TEST.replace("right", "wrong").replace("echo 0", "echo 0.25"))
    for state, options in ((trial, ()), (tmp_path / "alone.tar.zst", ("--image", "host"))):
        shown = seatrial("verify", task, "--state", state, "--json", *options)
        assert (shown.code, json.loads(shown.out)["reward"]) == (0, 0.25), shown


def test_repeats_say_what_differs_and_keep_what_was_printed(seatrial: Seatrial, tmp_path):
    root = write_task(tmp_path / "task", files={"tests/test.sh": TURNS})
    kept = tmp_path / "kept"
    shown = seatrial("verify", root, "--image", "host", "--repeat", 2, "--keep-output", kept)
    assert shown.code == 0
    assert "nondeterministic_verifier" in shown.out
    rewards = [float((kept / str(number) / "verifier/files/reward.txt").read_text()) for number in (1, 2)]
    assert shown.out.startswith(f"reward      {min(rewards):.4g}"[:16])
    again = seatrial("verify", root, "--image", "host", "--keep-output", kept)
    assert (again.code, "there is something in it; name a new folder" in again.err) == (2, True)


SERVES = """#!/bin/sh
if cat /proc/[0-9]*/comm | grep -qx sleep; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""


def test_files_of_a_service_are_started_each_time(seatrial: Seatrial, right, tmp_path):
    root = write_task(tmp_path / "task", files={"tests/test.sh": SERVES})
    (right / "start.sh").write_text("sleep 600 & until grep -qx sleep /proc/$!/comm; do :; done\n")
    shown = seatrial("verify", root, "--image", "host", "--state", right, "--repeat", 2, "--json")
    assert (shown.code, json.loads(shown.out)["rewards"]) == (0, [1.0, 1.0])


def test_a_verifier_without_a_verdict_is_not_good_enough(seatrial: Seatrial, tmp_path):
    root = write_task(tmp_path / "task", files={"tests/test.sh": "#!/bin/sh\nexit 3\n"})
    shown = seatrial("verify", root, "--image", "host")
    assert (shown.code, shown.err) == (1, "Not as it should be: the verifier gave no verdict\n")
    assert "verifier    exited with 3" in shown.out


def test_mistakes_are_told_before_anything_starts(seatrial: Seatrial, task, tmp_path):
    for arguments, said in (
        ((task, "--state", tmp_path / "nowhere"), "no end state is there"),
        ((task, "--step", "one"), "the task has no steps"),
        ((tmp_path / "none",), "none"),
        ((task, "--image", "/nowhere"), "expected a folder with a root file system"),
    ):
        shown = seatrial("verify", *arguments)
        assert (shown.code, said in shown.err) == (2, True), shown


def test_its_help_names_all_that_a_state_can_be():
    shown = start("verify", "--help")
    assert (shown.code, shown.err) == (0, "")
    assert "snapshot.tar.zst" in shown.out
    assert "--verify-repeats" not in shown.out
