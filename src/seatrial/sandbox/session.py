"""A sandbox for the length of a block, and the commands everyone needs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from seatrial.concurrency import finish
from seatrial.errors import SandboxError
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Phase, Sandbox, SandboxBackend, SandboxSpec


@asynccontextmanager
async def open_sandbox(backend: SandboxBackend, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    """A sandbox that is gone when the block is left, cancelled or not; what the block raises comes out of it."""
    sandbox = await backend.create(spec)
    try:
        yield sandbox
    except BaseException:
        with suppress(SandboxError):
            await finish(sandbox.destroy())
        raise
    await finish(sandbox.destroy())


async def run_shell(
    sandbox: Sandbox,
    script: str,
    *,
    phase: Phase = "agent",
    timeout_sec: float | None = None,
    network: Network = NO_NETWORK,
) -> ExecResult:
    """Run a shell command line."""
    command = ("/bin/sh", "-c", script)
    return await sandbox.exec(ExecSpec(command, phase=phase, timeout_sec=timeout_sec, network=network))
