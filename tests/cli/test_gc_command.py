"""`seatrial gc`: what dead runs left goes, what living ones use stays."""

import asyncio
import os
from pathlib import Path

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.runs import RunDirectory
from tests.cli.conftest import Seatrial
from tests.cli.job_folders import make_job, record


def why_no_sandbox(root: Path | None = None) -> str | None:
    """The reason why no sandbox runs on this machine, None where they do."""

    async def attempt() -> None:
        async with EmbeddedBackend(root=root):
            pass

    try:
        asyncio.run(attempt())
    except (HostUnsupportedError, SandboxError) as error:
        return str(error)
    return None


@pytest.fixture
def state(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A state directory of our own, on a machine where sandboxes run."""
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    if reason := why_no_sandbox(root):
        pytest.skip(f"embedded sandbox: {reason}")
    monkeypatch.setenv("SEATRIAL_STATE_DIR", str(root))
    monkeypatch.setenv("SEATRIAL_CACHE", str(tmp_path / "cache"))
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        monkeypatch.setenv(name, f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return root


def test_dead_runs_are_removed_and_living_ones_are_not(seatrial: Seatrial, state):
    living, dead = RunDirectory(state), RunDirectory(state)
    (dead.path / "sandbox").mkdir()
    dead.release()
    shown = seatrial("gc")
    assert shown.code == 0
    assert f"removed {dead.path}\n" in shown.out
    assert os.listdir(state) == [living.name]
    living.release()


def test_a_run_that_was_killed_before_its_directory_had_a_name(seatrial: Seatrial, state):
    unnamed = state / "new-run-123-0123abcd"
    unnamed.mkdir()
    assert f"removed {unnamed}\n" in seatrial("gc").out
    assert os.listdir(state) == []


def test_what_only_looks_like_ours_is_left_alone(seatrial: Seatrial, state):
    for name in ("run-results", "run-1-0123abcd-copy", "containers-of-mine"):
        (state / name).mkdir()
    seatrial("gc")
    assert sorted(os.listdir(state)) == ["containers-of-mine", "run-1-0123abcd-copy", "run-results"]


def test_with_nothing_to_do_it_says_so(seatrial: Seatrial, state):
    shown = seatrial("gc")
    assert shown.code == 0
    assert f"removed {state}" not in shown.out
    assert shown.out.endswith(" of dead runs removed from this machine\n")


def test_half_written_trials_are_removed_from_jobs_that_do_not_run(seatrial: Seatrial, state, tmp_path):
    idle, busy = (make_job(tmp_path / name, record("volts", 1.0)) for name in ("idle", "busy"))
    for store in (idle, busy):
        (store.path / ".drafts/volts.1.abcd").mkdir()
    with busy.lock():
        (busy.path / ".drafts/volts.1.abcd").mkdir()
        shown = seatrial("gc", idle.path, busy.path)
        assert shown.code == 0
        assert len(os.listdir(busy.path / ".drafts")) == 1
    assert f"{idle.path}: removed 1 half-written trial\n" in shown.out
    assert f"{busy.path}: another run" in shown.out
    assert os.listdir(idle.path / ".drafts") == []
    assert len(idle.finished()) == 1


def test_one_folder_that_is_no_job_stops_it_before_anything_is_removed(seatrial: Seatrial, state, tmp_path):
    dead = RunDirectory(state)
    dead.release()
    assert seatrial("gc", tmp_path / "nowhere").code == 2
    assert dead.path.exists()
