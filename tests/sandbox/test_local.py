"""The local backend keeps the contract as far as plain processes can, and refuses loudly where they cannot."""

import asyncio
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.model.record import LimitSpec
from seatrial.sandbox import processes
from seatrial.sandbox.api import ExecResult, ExecSpec, Image, Network, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.local import LocalBackend, LocalSandbox, UnisolatedWarning
from seatrial.sandbox.transfer import get_file, new_archive, put_file
from seatrial.testing.contract import SandboxContract

ignore_warning = pytest.mark.filterwarnings("ignore::seatrial.sandbox.local.UnisolatedWarning")
HOST = Network("host")


@ignore_warning
class TestContract(SandboxContract):
    def make_backend(self) -> SandboxBackend:
        return LocalBackend()


@asynccontextmanager
async def local_sandbox(directory: Path | None = None) -> AsyncIterator[LocalSandbox]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnisolatedWarning)
        async with LocalBackend(directory) as backend:
            yield await backend.create(SandboxSpec())


async def sh(sandbox: LocalSandbox, script: str, **changes: Any) -> ExecResult:
    return await sandbox.exec(replace(ExecSpec(("/bin/sh", "-c", script), network=HOST), **changes))


def test_it_warns_once_per_backend():
    async def create_two() -> None:
        async with LocalBackend() as backend:
            await backend.create(SandboxSpec())
            await backend.create(SandboxSpec())

    for _ in range(2):
        with pytest.warns(UnisolatedWarning, match="isolates nothing") as caught:
            asyncio.run(create_two())
        assert len(caught) == 1


def test_it_claims_nothing():
    capabilities = asyncio.run(LocalBackend().probe())
    assert capabilities.isolation == "none"
    assert not capabilities.limits
    assert list(capabilities.networks) == ["host"]
    assert not capabilities.guarded_phases
    assert capabilities.missing
    assert all("backend" in reason for reason in capabilities.missing.values())


REFUSED_SPECS = {
    "memory_mb=64": SandboxSpec(limits=LimitSpec(memory_mb=64)),
    "cpus=0.5": SandboxSpec(limits=LimitSpec(cpus=0.5)),
    "image 'debian:12'": SandboxSpec(image=Image("debian:12", (Path("/layer"),))),
    "image 'empty'": SandboxSpec(image=Image("empty")),
}


@pytest.mark.parametrize("what", REFUSED_SPECS)
def test_what_cannot_be_made_is_refused_with_a_way_out(what):
    async def create() -> None:
        async with LocalBackend() as backend:
            await backend.create(REFUSED_SPECS[what])

    with pytest.raises(HostUnsupportedError, match=f"cannot do {what}: plain processes .* use the embedded"):
        asyncio.run(create())


REFUSED_COMMANDS = {
    "network 'none'": ExecSpec(("true",)),
    "network 'public'": ExecSpec(("true",), network=Network("public")),
    "user 'nobody'": ExecSpec(("true",), network=HOST, user="nobody"),
}


@pytest.mark.parametrize("what", REFUSED_COMMANDS)
def test_what_cannot_be_run_is_refused_with_a_way_out(what):
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sandbox.exec(REFUSED_COMMANDS[what])

    with pytest.raises(HostUnsupportedError, match=f"cannot do {what}: plain processes .* use the embedded"):
        asyncio.run(run())


@ignore_warning
def test_limits_that_need_not_hold_are_left_out():
    async def create() -> LimitSpec:
        async with LocalBackend() as backend:
            spec = SandboxSpec(limits=LimitSpec(memory_mb=64), enforcement="partial")
            return (await backend.create(spec)).limits_enforced

    assert asyncio.run(create()) == LimitSpec()


def test_a_closed_backend_makes_nothing():
    async def create() -> None:
        async with LocalBackend() as backend:
            pass
        await backend.create(SandboxSpec())

    with pytest.raises(SandboxError, match="closed"):
        asyncio.run(create())


def test_commands_see_the_host_and_where_their_files_are(tmp_path):
    (tmp_path / "of the host").write_text("seen")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    async def run() -> None:
        async with local_sandbox(scratch) as sandbox:
            (root,) = scratch.glob("*/*")
            told = await sh(sandbox, 'echo "$SANDBOX_ROOT $HOME $PWD"', cwd="/new/dir")
            assert told.stdout.decode() == f"{root} {root} {root}/new/dir\n"
            assert (await sh(sandbox, "pwd", cwd="sub")).stdout.decode() == f"{root}/app/sub\n"
            assert (await sh(sandbox, f"cat '{tmp_path}/of the host'", phase="verifier")).stdout == b"seen"

    asyncio.run(run())
    assert not list(scratch.iterdir())


def test_both_streams_may_go_to_one_file(tmp_path):
    log = tmp_path / "log"

    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, "echo 1; echo 2 >&2; echo 3", stdout_path=log, stderr_path=log)

    asyncio.run(run())
    assert log.read_text() == "1\n2\n3\n"


@pytest.mark.parametrize("cwd", ["/file", "/../.."])
def test_a_working_directory_that_cannot_be_used(cwd):
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await put_file(sandbox, "/file", b"")
            await sh(sandbox, "true", cwd=cwd)

    with pytest.raises(SandboxError, match="cannot run"):
        asyncio.run(run())


def test_an_output_file_that_cannot_be_written(tmp_path):
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, "true", stdout_path=tmp_path / "missing" / "log")

    with pytest.raises(SandboxError, match="missing/log"):
        asyncio.run(run())


def test_links_inside_are_followed_and_paths_cannot_climb_out():
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, "mkdir real; ln -s real near; ln -s loop loop")
            await put_file(sandbox, "/app/near/file", b"x")
            assert await get_file(sandbox, "/app/real/file", limit=9) == b"x"
            for path in ("/../../../etc/passwd", "/app/../../etc/passwd", "/app/loop/file"):
                with pytest.raises(FileNotFoundError):
                    await get_file(sandbox, path, limit=10**6)
            with new_archive() as archive, pytest.raises(SandboxError, match="leads out"):
                await sandbox.put("/../..", archive)

    asyncio.run(run())


def test_changes_can_be_written_down_whatever_the_names():
    async def run() -> tuple[str, ...]:
        async with local_sandbox() as sandbox:
            await sh(sandbox, r'touch "$(printf "b\377")" a; mkfifo c; mkdir d')
            return (await sandbox.changes()).added

    assert asyncio.run(run()) == ("/app/a", r"/app/b\xff", "/app/c")


def test_a_snapshot_needs_a_new_directory(tmp_path):
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sandbox.snapshot(tmp_path)

    with pytest.raises(SandboxError, match="exists"):
        asyncio.run(run())


DAMAGE = ['sleep 1000 & rm -rf "$SANDBOX_ROOT"', "mkdir -p a/b; chmod 000 a", "ln -s / a; ln -s .. b"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_it_is_removed_whatever_was_done_to_it(tmp_path, damage):
    async def run() -> None:
        async with local_sandbox(tmp_path) as sandbox:
            assert (await sh(sandbox, damage)).exit_code == 0

    before = children()
    asyncio.run(run())
    assert not list(tmp_path.iterdir())
    assert children() == before


def test_who_forgets_his_environment_is_known_by_his_session():
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, "mkfifo started; env -i /bin/sh -mc 'sleep 1000 & echo $! >started' >/dev/null 2>&1 &")
            pid = int((await sh(sandbox, "cat started")).stdout)
            await sandbox.kill_all()
            assert pid not in {living for living, _ in processes._living()}

    asyncio.run(run())


def test_strangers_are_left_alone():
    async def run() -> None:
        async with local_sandbox() as sandbox:
            await sh(sandbox, "sleep 1000 &")
            await sandbox.kill_all()

    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        try:
            asyncio.run(run())
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_many_commands_leave_few_traces_and_in_the_end_none():
    async def run() -> None:
        async with local_sandbox() as sandbox:
            for _ in range(150):
                await sandbox.exec(ExecSpec(("true",), network=HOST))
            assert len(children() - before) <= processes._MANY_LEADERS

    before = children()
    asyncio.run(run())
    assert children() == before


# Its first thread ends; the second says so and goes on.
HALF_DEAD = """
import ctypes, os, pathlib, threading
def go_on():
    while pathlib.Path(f"/proc/self/task/{os.getpid()}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
        pass
    print("ready", flush=True)
    threading.Event().wait()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_without_its_first_thread_counts_as_living():
    with subprocess.Popen([sys.executable, "-c", HALF_DEAD], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert process.pid in {pid for pid, _ in processes._living()}
        finally:
            process.kill()


def children() -> set[int]:
    """Our own children, also those that have ended and that nobody has waited for."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return {pid for pid in pids if parent_of(pid) == os.getpid()}


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@ignore_warning
def test_leaving_a_block_by_an_error_still_destroys(tmp_path):
    async def run() -> None:
        async with LocalBackend(tmp_path) as backend, open_sandbox(backend, SandboxSpec()):
            raise LookupError("of the caller")

    with pytest.raises(LookupError):
        asyncio.run(run())
    assert not list(tmp_path.iterdir())
