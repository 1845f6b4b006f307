"""Stopping to wait, at any moment and again while things are tidied up, leaves nothing behind and breaks nothing."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import ExecSpec, Image, Sandbox, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.transfer import put_file
from seatrial.testing.contract_base import new_mark
from tests.conftest import sampled
from tests.sandbox.embedded.support import (
    TIMEOUT_SEC,
    ask,
    control_groups,
    in_both_modes,
    loop_devices,
    needs_root,
    processes,
    run,
    shell,
    wait_until,
)

pytestmark = [needs_root, in_both_modes]

# How many turns of the event loop something has before it is cancelled: from none to longer than it takes.
TURNS = [0, 1, 2, 3, 5, 10, 30, 100, 300, 1000, 3000]
LIMITED = SandboxSpec(limits=LimitSpec(pids=100, storage_mb=16))


async def cancel_after(turns: int, work: Coroutine[Any, Any, Any]) -> Any:
    """Cancel something after so many turns of the loop, and then until it ends; its result, if it still has one."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    return None if task.cancelled() else task.result()


def left_over(backend: EmbeddedBackend, root: Path) -> list[str]:
    """What there is of sandboxes: directories, disks and control groups."""
    mark = f"{backend._keeper.home.run.name}-"
    wait_until(lambda: not loop_devices(mark))  # the kernel lets go of them a moment after their last user
    files = [path.name for path in (root / backend._keeper.home.run.name).iterdir() if path.name.startswith(mark)]
    return [*files, *control_groups(mark)]


@pytest.mark.parametrize("spec", sampled([SandboxSpec(), LIMITED]), ids=["plain", "limited"])
def test_creating(mode, spec, tmp_path: Path):
    async def scene(backend):
        for turns in TURNS:
            made = await cancel_after(turns, backend.create(spec))
            if made is not None:
                await made.destroy()
            assert left_over(backend, tmp_path) == [], turns
        async with open_sandbox(backend, spec) as sandbox:
            assert await ask(sandbox, shell("echo alive")) == "alive"

    run(scene, mode, tmp_path)


@pytest.mark.whole
def test_creating_many_at_once(mode, tmp_path: Path):
    async def scene(backend):
        tasks = [asyncio.ensure_future(backend.create(SandboxSpec())) for _ in range(20)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                await task.result().destroy()
        assert left_over(backend, tmp_path) == []

    run(scene, mode, tmp_path)


@pytest.mark.parametrize("phase", sampled(["agent", "verifier"]))
def test_running_a_command(mode, phase, tmp_path: Path):
    async def scene(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            for turns in TURNS:
                mark = new_mark()
                spec = ExecSpec(("/bin/sh", "-c", "setsid sleep 1000 & sleep 1000"), phase=phase, env={"MARK": mark})
                assert await cancel_after(turns, sandbox.exec(spec)) is None
                assert processes(mark) == [], turns
            assert await ask(sandbox, shell("echo alive", phase=phase)) == "alive"

    run(scene, mode, tmp_path)


def test_destroying(mode, tmp_path: Path):
    """Whoever asks again waits until it is done."""

    async def scene(backend):
        mark = new_mark()
        for turns in TURNS:
            sandbox = await backend.create(LIMITED)
            await ask(sandbox, shell("sleep 1000 >/dev/null 2>&1 &", env={"MARK": mark}))
            await cancel_after(turns, sandbox.destroy())
            await sandbox.destroy()
            assert left_over(backend, tmp_path) == [], turns
            assert processes(mark) == []

    run(scene, mode, tmp_path)


@pytest.mark.whole
def test_destroying_while_commands_are_being_cancelled(mode, tmp_path: Path):
    """The orders to kill are still on their way then; they hit nobody, least of all the other sandboxes."""

    async def scene(backend):
        async with open_sandbox(backend, SandboxSpec()) as other:
            for turns in TURNS:
                sandbox = await backend.create(SandboxSpec())
                commands = [asyncio.ensure_future(sandbox.exec(ExecSpec(("sleep", "1000")))) for _ in range(8)]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for command in commands:
                    command.cancel()
                await asyncio.sleep(0)
                await sandbox.destroy()
                await asyncio.wait(commands)
                assert all(command.cancelled() for command in commands), turns
            assert await ask(other, shell("echo alive")) == "alive"

    run(scene, mode, tmp_path)


def test_moving_files(mode, tmp_path: Path):
    async def scene(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            for turns in TURNS:
                await cancel_after(turns, put_file(sandbox, "/app/file", bytes(10**6)))
                await cancel_after(turns, sandbox.changes())
                await cancel_after(turns, put_file(sandbox, "/logs/verifier/file", b"x", phase="verifier"))
                await put_file(sandbox, f"/tests/{turns}", b"x", phase="verifier")
            found = (await ask(sandbox, shell("ls /tests", phase="verifier"))).split()
            assert sorted(found, key=int) == [str(turns) for turns in TURNS]

    run(scene, mode, tmp_path)


def test_starting_and_leaving_a_backend(mode, tmp_path: Path):
    async def live() -> None:
        async with asyncio.timeout(TIMEOUT_SEC), EmbeddedBackend(mode, tmp_path) as backend:
            sandbox = await backend.create(SandboxSpec())
            await sandbox.exec(ExecSpec(("true",)))

    for turns in TURNS:
        asyncio.run(cancel_after(turns, live()))
        assert list(tmp_path.iterdir()) == [], turns
        assert processes(str(tmp_path)) == [], turns


@pytest.mark.whole
def test_many_commands_with_long_environments_at_once(mode):
    """More than fits on the wire to the spawner: each waits for its turn, and none is forgotten."""

    async def scene(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            env = {f"V{number}": "x" * 1000 for number in range(60)}
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(sandbox.exec(ExecSpec(("true",), env=env))) for _ in range(40)]
            assert {task.result().exit_code for task in tasks} == {0}

    run(scene, mode)


def test_what_cannot_be_made_leaves_nothing(mode, tmp_path: Path):
    """Refused half-way, when its control group and its disk are there already."""

    async def scene(backend):
        layer = tmp_path / "layer"
        layer.mkdir()
        (layer / "proc").write_text("a file where a directory has to be")
        spec = SandboxSpec(image=Image("broken", (layer,)), limits=LIMITED.limits)
        with pytest.raises(SandboxError):
            await backend.create(spec)
        assert left_over(backend, tmp_path) == []
        made: Sandbox = await backend.create(SandboxSpec())
        assert await ask(made, shell("echo alive")) == "alive"

    run(scene, mode, tmp_path)
