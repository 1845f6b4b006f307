"""Whether our own sandboxes work on this machine, found out by making one, and which limits hold in it."""

import os
import platform
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

from seatrial.errors import SeatrialError
from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import Sandbox, SandboxSpec
from seatrial.sandbox.doctor import HostFinding, expect, try_sandbox, try_step
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.session import open_sandbox, run_shell


async def examine_embedded(root: Path | None = None) -> AsyncIterator[HostFinding]:
    """Every step, one finding after the other. What nothing can work without ends it early."""
    yield _kernel()
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
        async for finding in try_sandbox(sandbox):
            yield finding
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
            return expect(result.exit_code == 0, "enforced")

    return await try_step(step, attempt())


def _overlay_fix() -> str:
    return (
        "set SEATRIAL_STATE_DIR to a directory on ext4, xfs, btrfs or tmpfs: overlay cannot write to every file system"
    )
