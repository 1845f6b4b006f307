"""Nothing outlives us: killed or crowded, what is left is nothing, or cleared away by the next run."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.session import open_sandbox, run_shell
from seatrial.sandbox.transfer import get_file, put_file
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root

SLEEPERS = """
import asyncio, sys
from pathlib import Path
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.session import run_shell

async def main():
    async with EmbeddedBackend(root=Path(sys.argv[1])) as backend:
        spec = SandboxSpec(limits=LimitSpec(pids=100, storage_mb=64))
        boxes = [await backend.create(spec) for _ in range(3)]
        for box in boxes:
            await run_shell(box, "sleep 1000 & setsid sleep 1000 >/dev/null 2>&1 &")
        print(backend._client._process.pid, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


def traces(state: Path) -> set[str]:
    """Everything on this machine that has to do with runs below a directory: processes, mounts, loop devices."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, mounts = (process / "cmdline").read_bytes(), (process / "mountinfo").read_text()
        except OSError:
            continue
        if str(state).encode() in command or (str(state) in mounts and process.name != str(os.getpid())):
            found.add(f"process {process.name}: {command!r}")
    devices = Path("/sys/block").glob("loop*/loop/backing_file")
    found |= {f"loop {path}" for path in devices if str(state) in path.read_text(errors="replace")}
    groups = subprocess.run(["find", "/sys/fs/cgroup", "-type", "d", "-name", "run-*"], capture_output=True, text=True)  # noqa: PLW1510
    runs = [path.name for path in state.glob("run-*")] if state.exists() else []
    return found | {line for line in groups.stdout.splitlines() if line.rsplit("/", 1)[-1] in runs}


def wait_until_gone(state: Path) -> set[str]:
    deadline = time.monotonic() + 10
    while (left := {trace for trace in traces(state) if trace.startswith(("process", "loop"))}) and (
        time.monotonic() < deadline
    ):
        os.sched_yield()
    return left


@pytest.mark.parametrize("victim", ["harness", "spawner"])
def test_after_a_kill_nothing_runs_and_the_next_run_clears_the_rest(tmp_path, victim):
    state = tmp_path / "state"
    state.mkdir()
    with subprocess.Popen([sys.executable, "-c", SLEEPERS, str(state)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        spawner = int(process.stdout.readline())
        os.kill(process.pid if victim == "harness" else spawner, signal.SIGKILL)
        if victim == "spawner":
            process.terminate()
        process.wait()
    assert wait_until_gone(state) == set()

    async def next_run():
        async with EmbeddedBackend(root=state):
            return len(list(state.iterdir()))

    assert asyncio.run(next_run()) == 1
    assert list(state.iterdir()) == []
    assert traces(state) == set()


def test_a_run_that_lives_is_left_alone(tmp_path):
    async def scenario():
        async with EmbeddedBackend(root=tmp_path) as first, open_sandbox(first, SandboxSpec()) as sandbox:
            async with EmbeddedBackend(root=tmp_path):
                pass
            return (await run_shell(sandbox, "echo alive")).stdout

    assert asyncio.run(scenario()) == b"alive\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(240)
def test_hundreds_of_sandboxes_leave_nothing_behind(tmp_path):
    count, at_once = 400, 200

    async def one(backend, gate, number):
        async with gate, open_sandbox(backend, SandboxSpec()) as sandbox:
            await put_file(sandbox, "/app/number", str(number).encode())
            result = await run_shell(sandbox, "cp /app/number /app/copy")
            assert result.exit_code == 0
            assert await get_file(sandbox, "/app/copy", limit=100) == str(number).encode()

    async def scenario():
        async with EmbeddedBackend(root=tmp_path) as backend:
            async with open_sandbox(backend, SandboxSpec()):
                pass
            spawner = backend._client._process.pid  # type: ignore[union-attr]
            before = descriptors(spawner)
            gate = asyncio.Semaphore(at_once)
            async with asyncio.TaskGroup() as group:
                for number in range(count):
                    group.create_task(one(backend, gate, number))
            left = [path.name for path in backend._run.path.iterdir() if path.name != "prepared"]
            return before, descriptors(spawner), left

    before, after, left = asyncio.run(scenario())
    assert left == []
    assert after == before
    assert list(tmp_path.iterdir()) == []
    assert traces(tmp_path) == set()


def descriptors(spawner: int) -> dict[str, int]:
    """How many files we and the spawner, a child of the process we started, have open."""
    children = Path(f"/proc/{spawner}/task/{spawner}/children").read_text().split()
    return {"ours": len(os.listdir("/proc/self/fd")), "spawner": len(os.listdir(f"/proc/{children[0]}/fd"))}
