"""Hundreds of sandboxes, most of them at once: none fails, and afterwards everything is as it was before."""

import asyncio
import os
from pathlib import Path

import pytest

from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import ExecSpec, Phase, SandboxSpec, open_sandbox
from seatrial.sandbox.transfer import get_file, put_file
from tests.sandbox.embedded.support import (
    children,
    control_groups,
    descriptors,
    needs_root,
    processes,
    read,
    run,
    spawners,
    wait_until,
)

pytestmark = needs_root

SANDBOXES, AT_ONCE = 400, 200
LIMITED = SandboxSpec(limits=LimitSpec(pids=50, memory_mb=512))


async def live(backend, number: int) -> None:
    """A whole small life; every fourth has a verifier as well."""
    phase: Phase = "agent" if number % 4 else "verifier"
    async with open_sandbox(backend, LIMITED) as sandbox:
        await put_file(sandbox, "/app/number", b"%d" % number, phase=phase)
        result = await sandbox.exec(ExecSpec(("cp", "number", "copy"), phase=phase, timeout_sec=100))
        assert result.exit_code == 0, result
        assert await get_file(sandbox, "/app/copy", limit=9) == b"%d" % number


def number_of_mounts(pid: int, mark: str) -> int:
    """Those of the run: whoever else is on the machine may mount what they like meanwhile."""
    return sum(mark in line for line in read(Path(f"/proc/{pid}/mountinfo")).splitlines())


def state_of(mark: str) -> dict[str, object]:
    """What a leak would show in: open files, mounts and children of ours and of the spawner's, control groups."""
    outer, spawner = spawners()
    return {
        "files": [len(descriptors(pid)) for pid in (os.getpid(), outer, spawner)],
        "mounts": [number_of_mounts(pid, mark) for pid in (os.getpid(), spawner)],
        "processes": sorted(children(os.getpid())),
        "control groups": control_groups(mark),
    }


@pytest.mark.alone
@pytest.mark.timeout(200)
def test_hundreds_of_sandboxes_leak_nothing(tmp_path: Path):
    async def scene(backend):
        mark = backend._keeper.home.run.name
        await live(backend, 0)
        before = state_of(mark)
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with gate:
                await live(backend, number)

        async with asyncio.timeout(180), asyncio.TaskGroup() as group:
            for number in range(SANDBOXES):
                group.create_task(one(number))
        await asyncio.to_thread(wait_until, lambda: state_of(mark)["processes"] == before["processes"])
        assert state_of(mark) == before
        return mark, sorted(path.name for path in backend._keeper.home.run.path.iterdir())

    mark, left = run(scene, "userns", tmp_path, timeout_sec=190)
    assert left == ["prepared"]
    assert list(tmp_path.iterdir()) == []
    assert processes(mark) == []
    assert control_groups(mark) == []


@pytest.mark.alone
def test_sandboxes_side_by_side_hold_nothing_of_each_other(tmp_path: Path):
    """However many there are, each one's first processes have none of the others' files open."""

    async def scene(backend):
        async with asyncio.timeout(100), asyncio.TaskGroup() as group:
            made = [group.create_task(backend.create(SandboxSpec())) for _ in range(120)]
        inits = [pid for pid in children(os.getpid())[2:] if read(Path(f"/proc/{pid}/cmdline")).startswith("init ")]
        assert len(inits) >= 2 * len(made)
        assert max(len(descriptors(pid)) for pid in inits) <= 5
        async with asyncio.TaskGroup() as group:
            for task in made:
                group.create_task(task.result().destroy())

    run(scene, "userns", tmp_path, timeout_sec=100)
    assert list(tmp_path.iterdir()) == []
