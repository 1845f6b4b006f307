"""A program that makes a container and a copy beside it, says so and waits to be killed."""

import asyncio
import sys

from seatrial.sandbox.api import ExecSpec, Image, SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Endpoint, Engine


async def main(engine: Engine, socket: str, image: str) -> None:
    async with EngineBackend(engine, Endpoint(engine, socket)) as backend:
        sandbox = await backend.create(SandboxSpec(image=Image(image), env={"VICTIM": "1"}))
        await sandbox.exec(ExecSpec(("/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &")))
        await sandbox.copy_beside()
        print(backend.run_name, flush=True)  # noqa: T201 - whoever started it waits for this line
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))  # type: ignore[arg-type] # an engine and two texts
