"""What the sandbox benchmark runs: each way to run one command, and each backend's whole lifecycle, step by step."""

import asyncio
import ctypes
import io
import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sandbox_docker import Engine
from seatrial.sandbox.api import ExecSpec, Image, Sandbox, SandboxBackend, SandboxSpec, open_sandbox
from seatrial.sandbox.transfer import get_file, put_file

CONTENT = b"x" * 1000
STEPS = ("create", "put", "exec", "get", "destroy")

_TRUE = ("/bin/true",)
_KCMP_VM = 1
_BWRAP = ("--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")


class Laps:
    """A stopwatch for one lifecycle."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def end(self, step: str) -> None:
        """Note how long the step took that ends now."""
        now = time.perf_counter()
        self.seconds[step] = now - self._last
        self._last = now


@dataclass(frozen=True)
class Case:
    """Something to measure, under the name it has in the table."""

    name: str
    run: Callable[[Laps], Awaitable[None]]


def start_to_exit(
    backends: dict[str, SandboxBackend], images: Sequence[Image], docker: "DockerRuns | None"
) -> list[Case]:
    """`true`, run once and nothing left: plainly, by bubblewrap, by each of our modes and images, by Docker."""
    cases = [Case("plain subprocess", _subprocess_case(_TRUE))]
    if program := shutil.which("bwrap"):
        cases.append(Case("bubblewrap, root read-only", _subprocess_case((program, *_BWRAP, *_TRUE))))
    cases += _embedded_cases(backends, images, _run_once)
    return [*cases, Case("docker run --rm, net none", docker.run_once)] if docker else cases


def lifecycles(backends: dict[str, SandboxBackend], images: Sequence[Image], docker: "DockerRuns | None") -> list[Case]:
    """Create, put 1 kB, exec, get, destroy: by each of our modes and images, and by Docker."""
    cases = _embedded_cases(backends, images, _live)
    return [*cases, Case("Docker, Engine API", docker.live)] if docker else cases


def _embedded_cases(
    backends: dict[str, SandboxBackend],
    images: Sequence[Image],
    run: Callable[[SandboxBackend, Image, Laps], Awaitable[None]],
) -> list[Case]:
    def case(mode: str, image: Image) -> Case:
        return Case(f"embedded, {mode}, {image.reference}", lambda laps: run(backends[mode], image, laps))

    return [case(mode, image) for mode in backends for image in images]


def _subprocess_case(command: tuple[str, ...]) -> Callable[[Laps], Awaitable[None]]:
    async def run(_: Laps) -> None:
        subprocess.run(command, check=True)  # noqa: ASYNC221 - alone on the loop, and asyncio's own would cost more

    return run


async def _run_once(backend: SandboxBackend, image: Image, _: Laps) -> None:
    async with open_sandbox(backend, SandboxSpec(image=image)) as sandbox:
        await _succeed(sandbox, _TRUE)


async def _live(backend: SandboxBackend, image: Image, laps: Laps) -> None:
    async with open_sandbox(backend, SandboxSpec(image=image)) as sandbox:
        laps.end("create")
        await put_file(sandbox, "/app/input", CONTENT)
        laps.end("put")
        await _succeed(sandbox, _TRUE)
        laps.end("exec")
        assert await get_file(sandbox, "/app/input", limit=10_000) == CONTENT
        laps.end("get")
    laps.end("destroy")


async def _succeed(sandbox: Sandbox, command: tuple[str, ...]) -> None:
    result = await sandbox.exec(ExecSpec(command))
    assert result.exit_code == 0, result.stderr


class DockerRuns:
    """Docker's side of the comparison, each run in a thread of a pool as large as the most runs at once."""

    def __init__(self, engine: Engine, pool: ThreadPoolExecutor) -> None:
        self._engine = engine
        self._pool = pool

    async def run_once(self, _: Laps) -> None:
        """What `docker run --rm` does."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._run_once)

    async def live(self, laps: Laps) -> None:
        """The same lifecycle as ours."""
        await asyncio.get_running_loop().run_in_executor(self._pool, self._live, laps)

    def _run_once(self) -> None:
        container = self._engine.create(list(_TRUE))
        self._engine.start(container)
        assert self._engine.wait(container) == 0
        self._engine.remove(container)

    def _live(self, laps: Laps) -> None:
        container = self._engine.create(["/bin/sleep", "86400"])
        self._engine.start(container)
        laps.end("create")
        self._engine.put(container, "/app", _one_file())
        laps.end("put")
        assert self._engine.execute(container, list(_TRUE)) == 0
        laps.end("exec")
        assert _only_file(self._engine.get(container, "/app/input")) == CONTENT
        laps.end("get")
        self._engine.remove(container)
        laps.end("destroy")


def _one_file() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("input")
        member.size = len(CONTENT)
        tar.addfile(member, io.BytesIO(CONTENT))
    return packed.getvalue()


def _only_file(archive: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        content = tar.extractfile("input")
        assert content is not None
        return content.read()


def proportional_memory(ancestor: int) -> int:
    """Bytes of memory held by all descendants of a process; what several share is divided among them.

    A process that has its parent's very memory, not a copy of it, holds nothing itself.
    """
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    family = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in family and pid not in family}:
        family |= more
    holders = [pid for pid in family - {ancestor} if not _same_memory(pid, parents[pid])]
    return sum(_kilobytes(Path(f"/proc/{pid}/smaps_rollup"), "Pss:") for pid in holders) * 1024


def _same_memory(one: int, other: int) -> bool:
    """kcmp(2): what /proc says of two processes does not tell whether they have one memory or two."""
    number = {"x86_64": 312, "aarch64": 272}[os.uname().machine]
    return int(ctypes.CDLL(None).syscall(number, one, other, _KCMP_VM, 0, 0)) == 0


def available_memory() -> int:
    """Bytes the kernel could still give out."""
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable:") * 1024


def _kilobytes(path: Path, key: str) -> int:
    try:
        words = path.read_text().split()
    except OSError:  # ended meanwhile
        return 0
    return int(words[words.index(key) + 1]) if key in words else 0
