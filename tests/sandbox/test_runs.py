"""A run's directory is its own while it lives, and anybody's to clear away once it is dead."""

import os
import signal
import subprocess
import sys

import pytest

from seatrial.errors import HostUnsupportedError
from seatrial.sandbox.runs import RunDirectory, state_root

HOLD = """
import sys
from pathlib import Path
from seatrial.sandbox.runs import RunDirectory
run = RunDirectory(Path(sys.argv[1]))
print(run.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other_run(tmp_path):
    """Another process that has a run directory open."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
        process.kill()


def test_a_living_run_is_left_alone(tmp_path, other_run):
    run = RunDirectory(tmp_path)
    assert list(run.abandoned()) == []
    run.release()


def test_a_killed_run_is_found(tmp_path, other_run):
    process, path = other_run
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = RunDirectory(tmp_path)
    assert [str(found) for found in run.abandoned()] == [path]
    run.release()


def test_only_one_clears_away(tmp_path, other_run):
    process, _ = other_run
    process.kill()
    process.wait()
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    found = first.abandoned()
    next(found)
    assert list(second.abandoned()) == []
    found.close()
    first.release()
    second.release()


def test_two_runs_of_one_process_have_different_names(tmp_path):
    first, second = RunDirectory(tmp_path), RunDirectory(tmp_path)
    assert first.name != second.name
    first.release()
    second.release()


def test_the_state_directory_can_be_chosen(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "state"))
    assert state_root() == tmp_path / "state"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_name_overlay_cannot_take_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "a:b"))
    with pytest.raises(HostUnsupportedError, match="SEATRIAL_STATE_DIR"):
        state_root()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make somebody else's directory")
def test_somebody_else_s_directory_is_refused(tmp_path, monkeypatch):
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12345, 12345)
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(tmp_path / "theirs"))
    with pytest.raises(HostUnsupportedError, match="somebody else"):
        state_root()
