"""The same Dockerfile built by us and by Docker: all of it for the first time, and again with nothing to do."""

import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median

from seatrial.sandbox.engine.client import Endpoint, EngineClient
from seatrial.sandbox.engine.images import DaemonBuildSpec, build
from tests.docker_daemon import IMAGE
from tests.images.building.support import BASE, Builder, with_builder

ROUNDS = 3
FILES = 200


def write_context(folder: Path, base: str, serial: int) -> Path:
    """A context like that of many tasks: settings, some files, a few commands. No two serials share a step."""
    folder.mkdir()
    for number in range(FILES):
        (folder / f"file-{number}").write_text(f"{number}\n" * 100)
    (folder / "Dockerfile").write_text(
        f"FROM {base}\nENV SERIAL={serial}\nWORKDIR /app\nRUN mkdir -p /opt/tool && echo one > /opt/tool/one\n"
        "RUN echo two > /opt/tool/two\nCOPY . /app/\nRUN rm /app/file-1 && chmod -R go-w /app\nUSER root\n"
    )
    return folder


async def timed(work: Awaitable[object]) -> float:
    """How long it takes."""
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


async def race(builder: Builder, client: EngineClient, folder: Path) -> dict[str, list[float]]:
    """Take turns: ours and theirs, cold and cached."""
    times: dict[str, list[float]] = {}
    for serial in range(ROUNDS):
        ours = write_context(folder / f"ours-{serial}", BASE, serial)
        theirs = DaemonBuildSpec(write_context(folder / f"theirs-{serial}", IMAGE, serial), f"seatrial-bench:{serial}")
        turns: dict[str, Callable[[], Awaitable[object]]] = {
            "ours": lambda context=ours: builder.build(context),  # type: ignore[misc]
            "docker": lambda spec=theirs: build(client, spec),  # type: ignore[misc]
        }
        for state in ("cold", "cached"):
            for name, work in turns.items():
                times.setdefault(f"{name}, {state}", []).append(await timed(work()))
    return times


def compare_builds(endpoint: Endpoint) -> None:
    """Print how long builds take."""
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-") as scratch:

        async def scene(builder: Builder) -> dict[str, list[float]]:
            async with EngineClient(endpoint) as client:
                return await race(builder, client, Path(scratch))

        times = with_builder(Path(scratch) / "store", scene)
    print(f"\n{'Build of 8 instructions, s':30}{'ours':>12}{'docker':>12}")
    for state in ("cold", "cached"):
        ours, docker = (median(times[f"{name}, {state}"]) for name in ("ours", "docker"))
        print(f"{state:30}{ours:12.3f}{docker:12.3f}{docker / ours:12.1f} x")


if __name__ == "__main__":
    from tests.docker_daemon import engine_endpoint

    compare_builds(engine_endpoint("docker"))
