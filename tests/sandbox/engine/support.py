"""What the tests of containers share: a backend on the session's own daemon, and looks at the daemon from outside."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from seatrial.sandbox.api import ExecSpec, Image, Sandbox, SandboxSpec
from seatrial.sandbox.engine.backend import EngineBackend
from seatrial.sandbox.engine.client import Engine, EngineClient
from tests.docker_daemon import IMAGE, engine_endpoint
from tests.trial.support import Desk

TIMEOUT_SEC = 60.0
SPEC = SandboxSpec(image=Image(IMAGE))

T = TypeVar("T")


def run(work: Callable[[EngineBackend], Awaitable[T]], engine: Engine = "docker") -> T:
    """Do something with a backend of its own, within a time that no healthy machine needs."""

    async def play() -> T:
        async with asyncio.timeout(TIMEOUT_SEC), EngineBackend(engine, engine_endpoint(engine)) as backend:
            return await work(backend)

    return asyncio.run(play())


@contextmanager
def open_engine_desk(engine: Engine, folder: Path) -> Iterator[Desk]:
    """A desk that runs trials in containers of an engine."""
    with asyncio.Runner() as runner:
        backend = runner.run(EngineBackend(engine, engine_endpoint(engine)).__aenter__())
        try:
            yield Desk(runner, backend, folder)
        finally:
            runner.run(backend.__aexit__(None, None, None))


def ask_daemon(work: Callable[[EngineClient], Awaitable[T]]) -> T:
    """Do something with the daemon itself."""

    async def play() -> T:
        async with asyncio.timeout(TIMEOUT_SEC), EngineClient(engine_endpoint("docker")) as client:
            return await work(client)

    return asyncio.run(play())


def with_label(label: str) -> list[str]:
    """The names of containers and volumes with a label."""

    async def look(client: EngineClient) -> list[str]:
        filters = json.dumps({"label": [label]})
        containers = await client.ask("GET", "/containers/json", all="1", filters=filters)
        volumes = (await client.ask("GET", "/volumes", filters=filters)).get("Volumes") or []
        return [each["Names"][0].strip("/") for each in containers] + [each["Name"] for each in volumes]

    return ask_daemon(look)


async def sh(sandbox: Sandbox, script: str, **changes: Any) -> str:
    """What a shell script that must succeed prints."""
    spec = replace(ExecSpec(("/bin/sh", "-c", script), timeout_sec=TIMEOUT_SEC), **changes)
    result = await sandbox.exec(spec)
    assert result.exit_code == 0, result
    return result.stdout.decode()
