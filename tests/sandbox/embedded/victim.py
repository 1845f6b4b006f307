"""A process to kill: opens a backend with sandboxes in which something runs, says so, and goes on until it is ended.

    python -m tests.sandbox.embedded.victim MODE STATE_ROOT living|creating

It prints one line of JSON: the name of its run, and the pids of both stages of its spawner.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from seatrial.model.record import LimitSpec
from seatrial.sandbox.api import ExecSpec, Phase, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from tests.sandbox.embedded.support import spawners

SANDBOXES = 4
LIMITED = SandboxSpec(limits=LimitSpec(pids=100, storage_mb=16))
PHASES: tuple[Phase, ...] = ("agent", "verifier")


def describe(backend: EmbeddedBackend) -> dict[str, Any]:
    """What the tests need to know about a backend to look for what is left of it."""
    return {"run": backend._keeper.home.run.name, "spawner": spawners()}


async def live(backend: EmbeddedBackend) -> None:
    """Sandboxes with a service left behind and a command running in each phase, one with its own disk."""
    run = backend._keeper.home.run.name
    async with asyncio.TaskGroup() as group:
        for number in range(SANDBOXES):
            sandbox = await backend.create(SandboxSpec() if number else LIMITED)
            for phase in PHASES:
                leave = ("/bin/sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & echo left")
                await sandbox.exec(ExecSpec(leave, phase=phase, env={"MARK": run}))
                group.create_task(sandbox.exec(ExecSpec(("sleep", "1000"), phase=phase, env={"MARK": run})))
        sys.stdout.write(json.dumps(describe(backend)) + "\n")
        sys.stdout.flush()


async def create_for_ever(backend: EmbeddedBackend) -> None:
    """Sandboxes that come and go all the time."""

    async def come_and_go() -> None:
        while True:
            sandbox = await backend.create(LIMITED)
            await sandbox.exec(ExecSpec(("true",)))
            await sandbox.destroy()

    async with asyncio.TaskGroup() as group:
        for _ in range(SANDBOXES):
            group.create_task(come_and_go())
        sys.stdout.write(json.dumps(describe(backend)) + "\n")
        sys.stdout.flush()


async def main() -> None:
    mode, root, what = sys.argv[1:]
    async with EmbeddedBackend(mode, Path(root)) as backend:  # type: ignore[arg-type]
        await (live(backend) if what == "living" else create_for_ever(backend))


if __name__ == "__main__":
    asyncio.run(main())
