"""A sandbox for the length of a block, and the commands everyone needs."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from seatrial.concurrency import finish
from seatrial.sandbox.api import NO_NETWORK, ExecResult, ExecSpec, Network, Phase, Sandbox, SandboxBackend, SandboxSpec

_CLOCK_REALTIME_COARSE = 5


@asynccontextmanager
async def open_sandbox(backend: SandboxBackend, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    """A sandbox that is gone when the block is left, cancelled or not."""
    sandbox = await backend.create(spec)
    try:
        yield sandbox
    finally:
        await finish(sandbox.destroy())


def file_time() -> float:
    """The present moment by the clock that stamps files, for `Sandbox.changes`; it ticks a few times per 10 ms only."""
    return time.clock_gettime(_CLOCK_REALTIME_COARSE)


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
