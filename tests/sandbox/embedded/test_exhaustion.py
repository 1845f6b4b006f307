"""Using up everything there is, or refusing to end, harms nobody but the sandbox that does it."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from seatrial.errors import SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import ExecSpec, SandboxSpec, open_sandbox
from seatrial.testing.contract import new_mark
from tests.conftest import sampled
from tests.sandbox.embedded.attacks import STOPPER
from tests.sandbox.embedded.support import (
    PYTHON,
    ask,
    in_both_modes,
    needs_python,
    needs_root,
    processes,
    python,
    run,
    shell,
    wait_until,
)

pytestmark = [needs_root, needs_python]

MIB = 2**20
FORK_BOMB = "b() { b | b & }; b; while :; do :; done"
STUBBORN = """
import os, signal, sys, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
for generation in range(4):
    if os.fork() == 0:
        os.setsid()
        os.fork()
while True:
    time.sleep(1000)
"""


def within(**limits) -> SandboxSpec:
    return SandboxSpec(limits=LimitSpec.model_validate(limits))


@pytest.mark.alone
@in_both_modes
def test_a_fork_bomb_stops_at_the_limit_and_ends_with_its_time(mode):
    async def attack(backend):
        mark = new_mark()
        async with open_sandbox(backend, within(pids=64)) as sandbox:
            running = asyncio.ensure_future(sandbox.exec(shell(FORK_BOMB, timeout_sec=5.0, env={"MARK": mark})))
            await asyncio.to_thread(wait_until, lambda: len(processes(mark)) > 30)
            assert len(processes(mark)) <= 64
            assert (await running).timed_out
            assert processes(mark) == []
            assert await ask(sandbox, shell("echo $(echo alive)")) == "alive"

    run(attack, mode)


@in_both_modes
def test_too_much_memory_is_killed_and_counted(mode):
    async def attack(backend):
        async with open_sandbox(backend, within(memory_mb=64)) as sandbox:
            assert (await sandbox.exec(python("x = bytearray(2**28)"))).exit_code == -9
            assert (await sandbox.usage()).oom_kills == 1
            assert await ask(sandbox, shell("echo alive")) == "alive"

    run(attack, mode)


@pytest.mark.alone
@in_both_modes
def test_many_small_processes_do_not_get_the_sandbox_itself_killed(mode):
    """The kernel ends the largest process first: that must never be one of ours."""
    code = """if 1:
        import os, time
        for _ in range(40):
            if os.fork() == 0:
                room = bytearray(4 * 2**20)
                time.sleep(1000)
        time.sleep(1000)
    """

    async def attack(backend):
        async with open_sandbox(backend, within(memory_mb=64)) as sandbox:
            running = asyncio.ensure_future(sandbox.exec(python(code, timeout_sec=2.0)))
            assert (await running).exit_code in (None, -9)
            assert (await sandbox.usage()).oom_kills >= 1
            for phase in ("agent", "verifier"):
                assert await ask(sandbox, shell("echo alive", phase=phase)) == "alive"

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
@pytest.mark.parametrize("phase", ["agent", "verifier"])
def test_shared_memory_is_bounded_and_counts_as_memory(mode, phase):
    fill = "dd if=/dev/zero of=/dev/shm/big bs=1M count=200"

    async def attack(backend):
        async with open_sandbox(backend, within(memory_mb=256)) as sandbox:
            result = await sandbox.exec(shell(fill, phase=phase))
            assert b"No space left" in result.stderr
            usage = await sandbox.usage()
            assert usage.oom_kills == 0
            assert 64 * MIB <= (usage.peak_memory_bytes or 0) <= 128 * MIB
        async with open_sandbox(backend, within(memory_mb=48)) as sandbox:
            assert (await sandbox.exec(shell(f"{fill}; true", phase=phase))).exit_code in (0, -9)
            assert (await sandbox.usage()).oom_kills >= 1
            await ask(sandbox, shell("rm /dev/shm/big", phase=phase))
            assert await ask(sandbox, shell("echo alive")) == "alive"

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_disk_beyond_the_limit(mode):
    """Whatever folder it is written to, and however many files it takes."""
    code = """if 1:
        import errno, os
        for folder in ("/app", "/tmp", "/usr", "/etc", "/root"):
            try:
                with open(f"{folder}/big", "wb", buffering=0) as file:
                    while True:
                        file.write(bytes(2**20))
            except OSError as error:
                print(errno.errorcode[error.errno])
    """

    async def attack(backend):
        async with open_sandbox(backend, within(storage_mb=24)) as sandbox:
            assert (await ask(sandbox, python(code))).split() == ["ENOSPC"] * 5
            usage = await sandbox.usage()
            assert 20 * MIB <= (usage.disk_bytes or 0) <= 32 * MIB
            await ask(sandbox, shell("rm /app/big /tmp/big /usr/big /etc/big /root/big; echo x >/app/small"))

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_output_far_beyond_what_is_kept(mode, tmp_path: Path):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            spec = ExecSpec(("head", "-c", "256M", "/dev/zero"), max_output=MIB, stdout_path=tmp_path / "out")
            result = await sandbox.exec(spec)
            assert (result.exit_code, result.truncated) == (0, True)
            assert (tmp_path / "out").stat().st_size == MIB

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_a_flood_from_a_process_left_behind_holds_up_nobody(mode):
    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox, open_sandbox(backend, SandboxSpec()) as other:
            await sandbox.exec(shell("yes & yes >&2 &"))
            assert await ask(sandbox, shell("echo alive")) == "alive"
            assert await ask(other, shell("echo alive")) == "alive"

    run(attack, mode)


@in_both_modes
@pytest.mark.parametrize("phase", sampled(["agent", "verifier"]))
def test_processes_that_ignore_everything_are_gone_after_their_time(mode, phase):
    async def attack(backend):
        mark = new_mark()
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            spec = python(STUBBORN, timeout_sec=1.0, env={"MARK": mark}, phase=phase)
            running = asyncio.ensure_future(sandbox.exec(spec))
            await asyncio.to_thread(wait_until, lambda: len(processes(mark)) >= 16)
            assert (await running).timed_out
            assert processes(mark) == []

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_stopping_whoever_comes_to_kill_does_not_help(mode):
    async def attack(backend):
        mark = new_mark()
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            assert (await sandbox.exec(python(STOPPER, timeout_sec=2.0, env={"MARK": mark}))).timed_out
            assert processes(mark) == []
            assert await ask(sandbox, shell("echo alive")) == "alive"

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_stopping_the_next_command_does_not_stop_its_clock(mode):
    """The time of a command counts from the moment it was asked for, also while it is on its way in."""

    async def attack(backend):
        mark = new_mark()
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            stopping = asyncio.ensure_future(sandbox.exec(python(STOPPER, timeout_sec=30.0, env={"MARK": mark})))
            await asyncio.to_thread(wait_until, lambda: len(processes(mark)) >= 3)
            for _ in range(5):
                result = await sandbox.exec(shell("echo alive", timeout_sec=1.0))
                assert result.timed_out or result.stdout == b"alive\n" or result.exit_code == -9
            assert await ask(sandbox, shell("echo judged", phase="verifier", timeout_sec=10.0)) == "judged"
            await sandbox.kill_all()
            assert (await stopping).exit_code in (None, -9)
            assert processes(mark) == []

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_commands_that_start_while_all_are_killed_hold_up_nobody(mode):
    """Each of them ends, by the signal or before it began; a call that kills comes back in any case."""

    async def start(sandbox):
        try:
            return (await sandbox.exec(shell("exec sleep 1000"))).exit_code
        except SandboxError:
            return None

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            for _ in range(20):
                starts = [asyncio.ensure_future(start(sandbox)) for _ in range(6)]
                while not all(task.done() for task in starts):
                    await sandbox.kill_all()
                assert {task.result() for task in starts} <= {-9, None}
            assert await ask(sandbox, shell("echo alive")) == "alive"

    run(attack, mode)


@pytest.mark.whole
@in_both_modes
def test_ending_the_verifier_leaves_the_agent_s_place_usable(mode):
    async def attack(backend):
        mark = new_mark()
        async with open_sandbox(backend, SandboxSpec()) as sandbox:
            await ask(sandbox, shell("sleep 1000 >/dev/null 2>&1 &", env={"MARK": mark}))
            await ask(sandbox, shell("sleep 1000 >/dev/null 2>&1 &", env={"MARK": mark}, phase="verifier"))
            await ask(sandbox, shell("echo kept >/tests/file", phase="verifier"))
            assert len(processes(mark)) == 2
            await sandbox.kill_all("verifier")
            assert processes(mark) == []
            assert await ask(sandbox, shell("echo alive")) == "alive"
            assert await ask(sandbox, shell("cat /tests/file", phase="verifier")) == "kept"

    run(attack, mode)


@pytest.mark.whole
def test_what_there_is_only_so_much_of_per_user_is_not_taken_from_others():
    """Inotify instances, for one: the kernel counts them by user, and by whoever made the user's namespace."""
    take = """if 1:
        import ctypes, os, time
        libc = ctypes.CDLL(None)
        while libc.inotify_init() >= 0:
            pass
        if os.fork() == 0:
            for number in (0, 1, 2):
                os.close(number)
            time.sleep(1000)
    """
    one_more = "import ctypes; print(ctypes.CDLL(None).inotify_init() >= 0)"

    async def attack(backend):
        async with open_sandbox(backend, SandboxSpec()) as greedy, open_sandbox(backend, SandboxSpec()) as other:
            await ask(greedy, python(take))
            assert await ask(greedy, python(one_more)) == "False"
            assert await ask(other, python(one_more)) == "True"
            outside = await asyncio.to_thread(subprocess.check_output, [PYTHON, "-c", one_more])
            assert outside == b"True\n"

    run(attack, "userns")
