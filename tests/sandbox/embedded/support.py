"""What the tests of the embedded sandbox share: a sandbox to attack, and looks at the host from outside."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from seatrial.sandbox.api import ExecResult, ExecSpec, Sandbox, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.protocol import Mode
from tests.conftest import sampled

TIMEOUT_SEC = 60.0
MODES: tuple[Mode, ...] = ("userns", "root")
needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="these sandboxes need Linux, and root to look at the host"
)
# `make test` has the first; nearly all trials of its other tests run in root's.
in_both_modes = pytest.mark.parametrize("mode", sampled(MODES))
PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"attacks are written for the host's {PYTHON}")

T = TypeVar("T")


def run(
    work: Callable[[EmbeddedBackend], Awaitable[T]],
    mode: Mode,
    root: Path | None = None,
    timeout_sec: float = TIMEOUT_SEC,
) -> T:
    """Do something with a backend of its own, within a time that no healthy machine needs."""

    async def play() -> T:
        async with asyncio.timeout(timeout_sec), EmbeddedBackend(mode, root) as backend:
            return await work(backend)

    return asyncio.run(play())


def shell(script: str, **changes: Any) -> ExecSpec:
    """A shell script as a command; `changes` are fields of ExecSpec."""
    return replace(ExecSpec(("/bin/sh", "-c", script), timeout_sec=TIMEOUT_SEC), **changes)


def python(code: str, *arguments: str, **changes: Any) -> ExecSpec:
    """A Python program, run by the interpreter of the host image."""
    return replace(ExecSpec((PYTHON, "-I", "-c", code, *arguments), timeout_sec=TIMEOUT_SEC), **changes)


async def ask(sandbox: Sandbox, spec: ExecSpec) -> str:
    """What a command that must succeed prints."""
    result = await sandbox.exec(spec)
    assert result.exit_code == 0, result
    return result.stdout.decode().strip()


@dataclass(frozen=True, slots=True)
class Box:
    """A sandbox that several tests drive one after the other, from outside of any coroutine."""

    mode: Mode
    runner: asyncio.Runner
    sandbox: Sandbox

    def wait(self, work: Awaitable[T]) -> T:
        """Run a coroutine to its end."""

        async def bounded() -> T:
            async with asyncio.timeout(TIMEOUT_SEC):
                return await work

        return self.runner.run(bounded())

    def exec(self, spec: ExecSpec) -> ExecResult:
        """Run a command."""
        return self.wait(self.sandbox.exec(spec))

    def ask(self, spec: ExecSpec) -> str:
        """What a command that must succeed prints."""
        return self.wait(ask(self.sandbox, spec))


@contextmanager
def open_box(mode: Mode, spec: SandboxSpec = SandboxSpec()) -> Iterator[Box]:  # noqa: B008 - it is frozen
    """A sandbox with a backend of its own."""
    with asyncio.Runner() as runner:
        backend = runner.run(EmbeddedBackend(mode).__aenter__())
        try:
            yield Box(mode, runner, runner.run(backend.create(spec)))
        finally:
            runner.run(backend.__aexit__(None, None, None))


def read(path: Path) -> str:
    """A file of /proc, or nothing when its process has just gone."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return ""


def processes(mark: str) -> list[int]:
    """Everything that runs with a mark in its command line or environment: spawners, first processes, commands."""
    own = {os.getpid(), os.getppid()}
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if pid not in own and any(mark in text for text in _words(pid))]


def _words(pid: int) -> tuple[str, str]:
    return read(Path(f"/proc/{pid}/cmdline")), read(Path(f"/proc/{pid}/environ"))


def mounts(mark: str) -> list[str]:
    """Every mount with a mark in it, in any mount namespace of the machine."""
    found = {line for path in Path("/proc").glob("[0-9]*/mountinfo") for line in read(path).splitlines()}
    return sorted(line for line in found if mark in line)


def control_groups(mark: str) -> list[str]:
    """Every control group with a mark in its path."""
    return [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if mark in folder]


def loop_devices(mark: str) -> list[str]:
    """Every loop device on a file with a mark in its path."""
    return [str(path) for path in Path("/sys/block").glob("loop*/loop/backing_file") if mark in read(path)]


def children(pid: int) -> list[int]:
    """The processes a process has started, and theirs, and so on."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        if text := read(path):
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found = list(parents.get(pid, []))
    for child in found:
        found += parents.get(child, [])
    return found


def spawners() -> list[int]:
    """Both stages of the only spawner of this process, which may have other children: those of a cluster, for one."""
    named = "seatrial.sandbox.embedded"
    return sorted(pid for pid in children(os.getpid()) if named in read(Path(f"/proc/{pid}/cmdline")))[:2]


def descriptors(pid: int) -> dict[int, str]:
    """What a process has open."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found[int(path.name)] = str(path.readlink())
    return found


def wait_until(condition: Callable[[], T], timeout_sec: float = 20.0) -> T:
    """Look again and again until something holds, and return it; fails when it never does."""
    deadline = time.monotonic() + timeout_sec
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never came true: {condition}"
        time.sleep(0.01)
    return found
