"""What works on this machine, found out by doing it: every step of a sandbox's life, in order, for real."""

import asyncio
import os
import platform
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from seatrial.errors import SeatrialError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import ExecSpec, Network, Sandbox, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.endpoint import Engine
from seatrial.sandbox.session import open_sandbox, run_shell
from seatrial.sandbox.transfer import get_file, put_file

_TIMEOUT_SEC = 30.0


@dataclass(frozen=True, slots=True)
class HostFinding:
    """One thing that was tried; `fix` is the command or change that would make it work."""

    step: str
    status: Literal["works", "missing", "fails"]
    detail: str
    fix: str = ""


async def examine(root: Path | None = None) -> AsyncIterator[HostFinding]:
    """Try everything, one finding after the other: our own sandboxes, and then container engines."""
    yield _kernel()
    async for finding in _examine_embedded(root):
        yield finding
    for engine in get_args(Engine):
        yield await _examine_engine(engine)


async def _examine_embedded(root: Path | None) -> AsyncIterator[HostFinding]:
    """What nothing can work without ends it early."""
    async with AsyncExitStack() as stack:
        backend = EmbeddedBackend(root=root)
        try:
            await stack.enter_async_context(backend)
        except (SeatrialError, OSError) as error:
            detail, _, fix = str(error).partition("; ")
            yield HostFinding("namespaces", "fails", detail, fix or "use containers instead (-e docker, -e podman)")
            return
        capabilities = await backend.probe()
        yield HostFinding("namespaces", "works", f"the spawner runs in mode {capabilities.mode}")
        try:
            sandbox = await stack.enter_async_context(open_sandbox(backend, SandboxSpec()))
        except (SeatrialError, OSError) as error:
            yield HostFinding("sandbox", "fails", str(error), _overlay_fix())
            return
        yield HostFinding("sandbox", "works", "a root of this machine's own system directories is up")
        for step, attempt in _STEPS.items():
            yield await _try(step, attempt(sandbox))
        yield await _try_system_folders(sandbox)
        for limit in LimitSpec.model_fields:
            yield await _try_limit(backend, limit, capabilities.missing)
        for thing in ("userns", "many_users"):
            if thing in capabilities.missing:
                detail, _, fix = capabilities.missing[thing].partition("; ")
                yield HostFinding(thing, "missing", detail, fix)


def _kernel() -> HostFinding:
    release = platform.release()
    version = tuple(int(part) for part in release.split("-")[0].split(".")[:2] if part.isdigit())
    if platform.system() != "Linux" or version < (5, 12):
        return HostFinding("kernel", "fails", f"{platform.system()} {release}", "use Linux 5.12 or later, or Docker")
    return HostFinding("kernel", "works", f"Linux {release} on {platform.machine()}, user id {os.getuid()}")


async def _try(step: str, attempt: Awaitable[str]) -> HostFinding:
    try:
        async with asyncio.timeout(_TIMEOUT_SEC):
            return HostFinding(step, "works", await attempt)
    except (SeatrialError, OSError, TimeoutError) as error:
        return HostFinding(step, "fails", str(error) or type(error).__name__, "please report this with the line above")


async def _run(sandbox: Sandbox) -> str:
    result = await run_shell(sandbox, "echo $((6 * 7))")
    return _expect(result.stdout == b"42\n", f"a shell answers in {result.duration_sec * 1000:.0f} ms")


async def _files(sandbox: Sandbox) -> str:
    await put_file(sandbox, "/app/doctor.txt", b"written from outside")
    content = await get_file(sandbox, "/app/doctor.txt", limit=1000)
    changes = await sandbox.changes()
    return _expect(content == b"written from outside" and "/app/doctor.txt" in changes.added, "in, out, and noticed")


async def _guard(sandbox: Sandbox) -> str:
    await put_file(sandbox, "/tests/secret", b"", phase="verifier")
    seen = await run_shell(sandbox, "test -e /tests/secret", phase="verifier")
    hidden = await run_shell(sandbox, "test -e /tests/secret")
    return _expect((seen.exit_code, hidden.exit_code) == (0, 1), "the verifier's files are hidden from the agent")


async def _listener(sandbox: Sandbox) -> str:
    with await sandbox.listen(0) as listener:
        return _expect(listener.getsockname()[1] > 0, "a socket listens inside and is accepted outside")


async def _isolation(sandbox: Sandbox) -> str:
    result = await run_shell(sandbox, "cat /proc/net/dev")
    devices = {line.split(":")[0].strip() for line in result.stdout.decode().splitlines() if ":" in line}
    return _expect(devices == {"lo"}, "the sandbox has a loopback device and nothing else")


async def _proxy(sandbox: Sandbox) -> str:
    network = Network("allowlist", ("example.org",))
    result = await sandbox.exec(ExecSpec(("/bin/sh", "-c", "echo $HTTPS_PROXY"), network=network))
    return _expect(result.stdout.startswith(b"http://"), "listed hosts are reached through our proxy")


def _expect(truth: bool, said: str) -> str:  # noqa: FBT001 - it reads as a sentence where it is used
    if not truth:
        raise OSError(f"not as it should be: {said}")
    return said


_STEPS: dict[str, Callable[[Sandbox], Awaitable[str]]] = {
    "commands": _run,
    "files": _files,
    "guarded phases": _guard,
    "listener": _listener,
    "no network": _isolation,
    "allow list": _proxy,
}


async def _try_system_folders(sandbox: Sandbox) -> HostFinding:
    """Whether an agent can install something, as it can in a container."""
    script = "for folder in /usr/local/bin /etc /opt; do touch $folder/doctor 2>/dev/null || printf '%s ' $folder; done"
    closed = (await run_shell(sandbox, script)).stdout.decode(errors="replace").split()
    if not closed:
        return HostFinding("system folders", "works", "/usr, /etc and /opt take writes, which stay in the sandbox")
    reason = "something is mounted in them, or this kernel lays no overlay over them in a user namespace"
    fix = "run as root, or in an image of its own (--image) instead of this machine's system"
    return HostFinding("system folders", "missing", f"{', '.join(closed)} are read-only in sandboxes: {reason}", fix)


async def _try_limit(backend: EmbeddedBackend, limit: str, missing: Mapping[str, str]) -> HostFinding:
    step = f"limit {limit}"
    if limit in missing:
        detail, _, fix = missing[limit].partition("; ")
        return HostFinding(step, "missing", detail, fix)
    spec = SandboxSpec(limits=LimitSpec.model_validate({limit: 64}))

    async def attempt() -> str:
        async with open_sandbox(backend, spec) as sandbox:
            result = await run_shell(sandbox, "true")
            return _expect(result.exit_code == 0, "enforced")

    return await _try(step, attempt())


def _overlay_fix() -> str:
    return (
        "set SEATRIAL_STATE_DIR to a directory on ext4, xfs, btrfs or tmpfs: overlay cannot write to every file system"
    )


async def _examine_engine(engine: Engine) -> HostFinding:
    """Whether a daemon answers and what it can do; nothing needs one where our own sandboxes work."""
    try:
        async with EngineBackend(engine) as backend:
            capabilities = await backend.probe()
    except (SeatrialError, OSError) as error:
        detail, _, fix = str(error).partition("; ")
        return HostFinding(
            engine, "missing", f"{detail} (optional)", fix or "nothing: our own sandboxes do not need it"
        )
    if reason := capabilities.missing.get("listen"):
        detail, _, fix = reason.partition("; ")
        return HostFinding(engine, "missing", f"{capabilities.mode} answers, but agents reach no model: {detail}", fix)
    return HostFinding(engine, "works", f"{capabilities.mode} answers (optional)")
