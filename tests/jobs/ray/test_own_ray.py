"""The command with a Ray of its own: nothing of Ray's in its output, and nothing left running however it ends."""

import json
import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.jobs.ray.clusters import needs_ray

pytestmark = needs_ray


def processes(mark: bytes) -> dict[int, str]:
    """Those that have a variable, with the names of their programs."""
    found = {}
    for path in Path("/proc").iterdir():
        with suppress(OSError):
            if path.name.isdecimal() and mark in (path / "environ").read_bytes():
                found[int(path.name)] = (path / "comm").read_text().strip()
    return found


def variables_of(program: str, mark: bytes) -> bytes:
    pid = next(pid for pid, name in processes(mark).items() if name == program)
    return Path(f"/proc/{pid}/environ").read_bytes()


def left(mark: bytes, seconds: float) -> dict[int, str]:
    """Those that are there after so long, each; helpers of Ray's notice a moment later that it has ended."""
    for pid in processes(mark):
        with suppress(ProcessLookupError):
            descriptor = os.pidfd_open(pid)
            select.select([descriptor], [], [], seconds)
            os.close(descriptor)
    return processes(mark)


def test_an_interrupted_run_says_nothing_of_ray_and_leaves_nothing(make_task, tmp_path):
    make_task("tasks/add")
    state = tmp_path / "state"
    mark = f"SEATRIAL_STATE_DIR={state}\0".encode()
    arguments = ["run", "-p", "tasks", "--command", "sleep 60", "--image", "host", "-o", "job", "--no-preflight"]
    running = subprocess.Popen(
        [sys.executable, "-m", "seatrial", *arguments, "--engine", "ray", "--json"],
        cwd=tmp_path,
        env={**os.environ, "SEATRIAL_STATE_DIR": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stdout
    lines = []
    with running:
        for line in running.stdout:
            lines.append(json.loads(line))
            if lines[-1].get("phase") == "agent":
                break
        assert "raylet" in processes(mark).values()
        assert b"RAY_USAGE_STATS_ENABLED=0\0" in variables_of("raylet", mark)
        running.send_signal(signal.SIGINT)
        rest, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors == ""
    assert json.loads(rest.splitlines()[-1])["exit_code"] == 130
    assert left(mark, 20) == {}
    assert [path.name for path in (state / "node").iterdir()] == ["files"]
