"""The backend in docs/plugins.md is one that works: installed as it stands there, it is run, examined and swept."""

import json
import os
from pathlib import Path

import pytest

from seatrial.cli.main import run
from seatrial.sandbox.runs import RunDirectory
from seatrial.store.job_store import JobStore
from seatrial.verifier_kit import fenced_blocks
from tests.cli.test_gc_command import why_no_sandbox
from tests.conftest import REPOSITORY
from tests.installed import install
from tests.trial.support import write_task


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the installed example keeps its files, on a machine that has no leftovers of anybody else."""
    if reason := why_no_sandbox(tmp_path):
        pytest.skip(f"embedded sandbox: {reason}")
    for name, value in {
        "RAM_SANDBOXES": str(tmp_path),
        "SEATRIAL_STATE_DIR": str(tmp_path / "state"),
        "SEATRIAL_CACHE": str(tmp_path / "cache"),
        "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock",
        "CONTAINER_HOST": f"unix://{tmp_path}/nobody.sock",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    page = (REPOSITORY / "docs/plugins.md").read_text()
    (example,) = [block.body for block in fenced_blocks(page) if "BackendPlugin(" in block.body]
    install(monkeypatch, tmp_path / "site", "ram_sandboxes", example, backends="ram = PLUGIN")
    return tmp_path / f"ram-sandboxes-{os.getuid()}"


def test_it_runs_a_trial_and_agents_are_set_up_in_it(memory, tmp_path):
    write_task(tmp_path / "task")
    agent = ("--command", "cp /opt/word /app/answer.txt", "--agent-setup", "echo right > /opt/word")
    where = ("--image", "host", "-e", "ram", "-o", str(tmp_path / "job"))
    assert run(["run", "-p", str(tmp_path / "task"), *agent, *where]) == 0
    (entry,) = JobStore.open(tmp_path / "job").entries()
    assert entry.reward == 1.0
    assert JobStore.open(tmp_path / "job").record(entry.trial_id).sandbox.backend == "ram"
    assert list(memory.iterdir()) == []


def test_the_doctor_knows_it(memory, capsys):
    run(["doctor", "--json"])
    found = {finding["step"]: finding for finding in map(json.loads, capsys.readouterr().out.splitlines())}
    assert " MB " in found["ram"]["detail"]


def test_gc_removes_what_a_killed_run_left_and_nothing_else(memory, capsys):
    memory.mkdir(mode=0o700, exist_ok=True)
    living, dead = RunDirectory(memory), RunDirectory(memory)
    dead.release()
    assert run(["gc"]) == 0
    assert f"removed {dead.path}\n" in capsys.readouterr().out
    assert [path.name for path in memory.iterdir()] == [living.name]
    living.release()
