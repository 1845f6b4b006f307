"""The demo, for real: its story comes out, the commands it names work as printed, and it does not praise itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples import demo
from seatrial.model.record import Failure, TrialRecord, VerifierRun
from tests.cli.job_folders import record
from tests.conftest import REPOSITORY

PROVIDER = Failure(phase="agent", cause="ProviderError", message="answered 503")
CAUGHT = VerifierRun(duration_sec=1, isolation="guarded", restored=("/root/x.py",), survivors=("sh",))
FOUND_OUT = record("t", "no_output", verifier_run=CAUGHT, disputed_reward=1.0)


def test_the_story_comes_out_and_its_commands_work_as_printed(tmp_path):
    """From a folder of its own: the demo removes the job of an earlier one."""
    (tmp_path / "examples").symlink_to(REPOSITORY / "examples")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{REPOSITORY / 'src'}", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "examples.demo"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("✓")] == [
        *("solver", "idle", "cheat", "unlucky")
    ]
    assert f"for a browser: {demo.REPORT}" in done.stdout
    page = (tmp_path / demo.REPORT).read_bytes()
    assert all(agent in page for agent in (b"solver", b"idle", b"cheat", b"unlucky"))
    assert b"<svg" in page
    if not Path(sys.executable).with_name("seatrial").exists():
        pytest.skip("the program `seatrial` is not installed beside this Python")
    commands = [line.strip() for line in done.stdout.partition("Look closer:")[2].splitlines() if line.strip()]
    assert len(commands) == len(demo.COMMANDS)
    for line in commands[:2]:
        subprocess.run(["sh", "-c", line], cwd=tmp_path, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("chapter", "good", "bad"),
    [
        (demo.solved, record("t", 1.0), record("t", 0.0)),
        (demo.idled, record("t", "no_output"), record("t", 1.0)),
        (demo.cheated, FOUND_OUT, FOUND_OUT.model_copy(update={"disputed_reward": None})),
        (demo.cheated, FOUND_OUT, record("t", 1.0, verifier_run=CAUGHT)),
        (demo.cheated, FOUND_OUT, record("t", "no_output", disputed_reward=1.0)),
        (demo.broke_down, record("t", PROVIDER), record("t", 0.0)),
        (demo.broke_down, record("t", PROVIDER), record("t", PROVIDER.model_copy(update={"cause": "SandboxError"}))),
    ],
)
def test_it_says_so_when_the_story_does_not_come_out(chapter, good: TrialRecord, bad: TrialRecord):
    assert chapter([good, good]).true
    assert not chapter([good, bad]).true
