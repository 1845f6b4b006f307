"""Hundreds of sandboxes at once, and afterwards nothing: no process, mount, loop device, cgroup, file or descriptor."""

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from seatrial.sandbox.api import SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.session import open_sandbox, run_shell
from seatrial.sandbox.transfer import get_file, put_file
from tests.sandbox.embedded.support import needs_root

pytestmark = needs_root


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
