"""Whoever is killed, however hard: nothing goes on running, and the next one to start clears the rest away."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import SandboxError
from seatrial.sandbox.api import ExecSpec, SandboxSpec, open_sandbox
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.testing.contract import new_mark
from tests.conftest import REPOSITORY, sampled
from tests.programs import has_program
from tests.sandbox.embedded.support import (
    TIMEOUT_SEC,
    ask,
    control_groups,
    in_both_modes,
    loop_devices,
    mounts,
    needs_root,
    processes,
    run,
    shell,
    spawners,
    wait_until,
)

pytestmark = needs_root

# The first and the last thing every backend does, again and again.
STARTS = """
import pathlib, shutil, sys
from seatrial.sandbox.runs import RunDirectory
for _ in range(200):
    run = RunDirectory(pathlib.Path(sys.argv[1]))
    for path in run.abandoned():
        shutil.rmtree(path, ignore_errors=True)
    assert run.path.is_dir(), "somebody took us for dead"
    shutil.rmtree(run.path)
    run.release()
"""


@contextmanager
def victim(mode: str, root: Path, what: str) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """A process of ours with sandboxes, once they are up; ended by the test, or else at its end."""
    command = [sys.executable, "-m", "tests.sandbox.embedded.victim", mode, str(root), what]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout
        ready, _, _ = select.select([process.stdout], [], [], TIMEOUT_SEC)
        assert ready, "the victim never came up"
        line = process.stdout.readline()
        assert line, process.stderr.read() if process.stderr else ""
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate(timeout=TIMEOUT_SEC)


def is_quiet(mark: str) -> bool:
    """Whether nothing runs, is mounted or attached any more."""
    return not (processes(mark) or mounts(mark) or loop_devices(mark))


def leftovers(root: Path, mark: str) -> list[str]:
    return [*(path.name for path in root.iterdir()), *control_groups(mark)]


async def start_and_leave(mode, root):
    async with EmbeddedBackend(mode, root):
        pass


@in_both_modes
def test_killing_our_process_ends_everything_and_the_next_start_clears_up(mode, tmp_path: Path):
    async def scene(neighbour):
        async with open_sandbox(neighbour, SandboxSpec()) as sandbox:
            with victim(mode, tmp_path, "living") as (process, about):
                mark = about["run"]
                assert len(processes(mark)) >= 16
                assert loop_devices(mark) or not has_program("mkfs.ext4")
                process.kill()
                await asyncio.to_thread(wait_until, lambda: is_quiet(mark))
            assert (tmp_path / mark).is_dir()
            assert control_groups(mark)
            await start_and_leave(mode, tmp_path)
            assert not (tmp_path / mark).exists()
            assert control_groups(mark) == []
            assert await ask(sandbox, shell("echo untouched")) == "untouched"

    run(scene, mode, tmp_path)
    assert list(tmp_path.iterdir()) == []


@in_both_modes
@pytest.mark.parametrize("stage", sampled([0, 1]))
def test_a_killed_spawner_is_replaced_and_nothing_of_it_is_left(mode, stage, tmp_path: Path):
    """Whoever waits for something gets an error; whoever comes later gets a sandbox of the new one."""

    async def scene(backend):
        mark = backend._keeper.home.run.name
        sandbox = await backend.create(SandboxSpec())
        waiting = asyncio.ensure_future(sandbox.exec(ExecSpec(("sleep", "1000"), env={"MARK": mark})))
        await asyncio.to_thread(wait_until, lambda: len(processes(mark)) >= 5)
        os.kill(spawners()[stage], signal.SIGKILL)
        with pytest.raises(SandboxError):
            await waiting
        for use in (sandbox.exec(ExecSpec(("true",))), sandbox.usage(), sandbox.destroy()):
            with pytest.raises(SandboxError, match="spawner"):
                await use
        async with open_sandbox(backend, SandboxSpec()) as other:
            assert is_quiet(mark)
            assert not (tmp_path / mark).exists()
            assert control_groups(mark) == []
            assert await ask(other, shell("echo alive")) == "alive"

    run(scene, mode, tmp_path)
    assert list(tmp_path.iterdir()) == []


@in_both_modes
def test_killing_a_spawner_that_had_stopped_reading_wakes_whoever_waits_to_write(mode, tmp_path: Path):
    async def scene(backend):
        sandbox = await backend.create(SandboxSpec())
        os.kill(spawners()[1], signal.SIGSTOP)
        env = {f"V{number}": "x" * 1000 for number in range(60)}
        waiting = [asyncio.ensure_future(sandbox.exec(ExecSpec(("true",), env=env))) for _ in range(20)]
        await asyncio.wait(waiting, timeout=0.1)
        os.kill(spawners()[1], signal.SIGKILL)
        await asyncio.wait(waiting)
        assert {type(task.exception()) for task in waiting} == {SandboxError}

    run(scene, mode, tmp_path)
    assert list(tmp_path.iterdir()) == []


@in_both_modes
@pytest.mark.parametrize("which", sampled(["outer", "inner"]))
def test_killing_the_first_process_of_one_sandbox_harms_no_other(mode, which, tmp_path: Path):
    """As the kernel does when the machine is out of memory."""

    async def scene(backend):
        mark = new_mark()
        async with open_sandbox(backend, SandboxSpec()) as other, open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell("sleep 1000 >/dev/null 2>&1 &", env={"MARK": mark}))
            waiting = asyncio.ensure_future(sandbox.exec(ExecSpec(("sleep", "1000"), env={"MARK": mark})))
            await asyncio.to_thread(wait_until, lambda: len(processes(mark)) == 2)
            (command,) = {parent_of(pid) for pid in processes(mark)} - set(spawners())
            os.kill(command if which == "inner" else parent_of(command), signal.SIGKILL)
            with pytest.raises(SandboxError, match="first process"):
                await waiting
            await asyncio.to_thread(wait_until, lambda: processes(mark) == [])
            assert await ask(other, shell("echo alive")) == "alive"

    run(scene, mode, tmp_path)
    assert list(tmp_path.iterdir()) == []


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.whole
@in_both_modes
def test_an_interrupt_while_sandboxes_come_and_go_leaves_nothing(mode, tmp_path: Path):
    """Ctrl-C: the process tidies up and ends by it."""
    with victim(mode, tmp_path, "creating") as (process, about):
        wait_until(lambda: len(list((tmp_path / about["run"]).glob("run-*"))) >= 2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_SEC)
        assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT), errors
        assert "KeyboardInterrupt" in errors
        assert "never retrieved" not in errors
    assert is_quiet(about["run"])
    assert leftovers(tmp_path, about["run"]) == []


@pytest.mark.whole
@in_both_modes
def test_an_ended_process_leaves_no_more_than_a_killed_one(mode, tmp_path: Path):
    """SIGTERM, which Python does not turn into an exception."""
    with victim(mode, tmp_path, "creating") as (process, about):
        process.terminate()
        process.communicate(timeout=TIMEOUT_SEC)
        wait_until(lambda: is_quiet(about["run"]))
    asyncio.run(start_and_leave(mode, tmp_path))
    assert leftovers(tmp_path, about["run"]) == []


@pytest.mark.whole
def test_processes_that_start_together_leave_each_other_alone(tmp_path: Path):
    """Each clears away what the dead have left, and nobody takes the others for dead."""
    command = [sys.executable, "-c", STARTS, str(tmp_path)]
    together = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in together:
        _, errors = process.communicate(timeout=TIMEOUT_SEC)
        assert process.returncode == 0, errors
    assert list(tmp_path.iterdir()) == []
