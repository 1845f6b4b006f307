"""Sandboxes against Docker, bubblewrap and a plain subprocess, all taking turns in one run on one machine.

Times depend on the machine and on what else it does; the ratios are what we promise. Takes about two minutes. Where no
Docker daemon answers, one is started for the occasion, if it is installed, and removed again.
"""

import asyncio
import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median, quantiles

from benchmarks.sandbox_cases import (
    STEPS,
    Case,
    DockerRuns,
    Laps,
    available_memory,
    lifecycles,
    proportional_memory,
    start_to_exit,
)
from benchmarks.sandbox_docker import DockerError, make_busybox_root, open_engine
from seatrial.sandbox.api import HOST_IMAGE, Image, SandboxBackend, SandboxSpec
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.sandbox.embedded.protocol import Mode

SERIAL_RUNS = 15
ROUNDS = 3
RUNS_PER_ROUND = {8: 16, 32: 32}  # of Docker; ours are so much faster that more are needed for a measurable time
OUR_RUNS = 3
IDLE = 50
WIDTH = 36

PROMISED_RATIO = 12
PROMISED_READY_MS = 15
PROMISED_IDLE_MB = 3


def total(found: Sequence[Laps]) -> float:
    """The median of whole runs, in seconds."""
    return median(laps.seconds["total"] for laps in found)


def percentiles(found: Sequence[Laps]) -> str:
    p95 = quantiles((laps.seconds["total"] for laps in found), n=20)[-1]
    return f"{total(found) * 1000:7.1f} /{p95 * 1000:7.1f}"


async def timed(case: Case) -> Laps:
    laps = Laps()
    start = time.perf_counter()
    await case.run(laps)
    laps.seconds["total"] = time.perf_counter() - start
    return laps


async def take_turns(cases: list[Case], runs: int) -> dict[str, list[Laps]]:
    """One run of each case after the other, again and again, so that a busy moment hits all alike."""
    for case in cases:
        await timed(case)  # the first use of anything is not what is measured
    samples: dict[str, list[Laps]] = {case.name: [] for case in cases}
    for _ in range(runs):
        for case in cases:
            samples[case.name].append(await timed(case))
    return samples


async def rate(case: Case, runs: int, at_once: int) -> float:
    """Runs per second with so many of them under way at any time."""
    todo = iter(range(runs))

    async def worker() -> None:
        for _ in todo:
            await case.run(Laps())

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())
    return runs / (time.perf_counter() - start)


def is_docker(name: str) -> bool:
    return name.lower().startswith("docker")


async def report_start_to_exit(cases: list[Case]) -> None:
    samples = await take_turns(cases, SERIAL_RUNS)
    docker = next((total(found) for name, found in samples.items() if is_docker(name)), None)
    print(f"\n{'Start to exit of `true`, ms':{WIDTH}}    p50 /    p95   docker run takes")
    for name, found in samples.items():
        ratio = f"{docker / total(found):12.1f} x" if docker else ""
        print(f"{name:{WIDTH}}{percentiles(found)}{ratio}")


async def report_steps(cases: list[Case]) -> None:
    samples = await take_turns(cases, SERIAL_RUNS)
    print(f"\n{'Lifecycle, one at a time, ms':{WIDTH}}" + "".join(f"{step:>9}" for step in STEPS) + "    p50 /    p95")
    for name, found in samples.items():
        steps = "".join(f"{median(laps.seconds[step] for laps in found) * 1000:9.1f}" for step in STEPS)
        print(f"{name:{WIDTH}}{steps}{percentiles(found)}")
    print(f"{'promised on a quiet machine':{WIDTH}}{f'≤ {PROMISED_READY_MS}':>9}")


async def report_rates(cases: list[Case]) -> None:
    rates: dict[tuple[str, int], list[float]] = {}
    for at_once, runs in RUNS_PER_ROUND.items():
        for _ in range(ROUNDS):
            for case in cases:
                many = runs if is_docker(case.name) else runs * OUR_RUNS
                rates.setdefault((case.name, at_once), []).append(await rate(case, many, at_once))
    middle = {key: median(values) for key, values in rates.items()}
    docker = {at_once: value for (name, at_once), value in middle.items() if is_docker(name)}
    print(
        f"\n{'Lifecycles per second':{WIDTH}}"
        + "".join(f"{f'{n} at once':>12}{'of Docker':>12}" for n in RUNS_PER_ROUND)
    )
    for case in cases:
        cells = ""
        for at_once in RUNS_PER_ROUND:
            value = middle[case.name, at_once]
            ratio = f"{value / docker[at_once]:.1f} x" if docker else ""
            cells += f"{value:12.1f}{ratio:>12}"
        print(f"{case.name:{WIDTH}}{cells}")
    print(f"{'promised':{WIDTH}}" + f"{'':12}{f'≥ {PROMISED_RATIO} x':>12}" * len(RUNS_PER_ROUND))


async def report_idle_memory(modes: Sequence[Mode], images: Sequence[Image]) -> None:
    print(f"\n{f'Memory of an idle one, MB (of {IDLE})':{WIDTH}}{'processes':>12}{'less free':>12}")
    for mode in modes:
        for image in images:
            held, taken = await idle_memory(mode, SandboxSpec(image=image))
            print(f"{f'embedded, {mode}, {image.reference}':{WIDTH}}{held:12.2f}{taken:12.2f}")
    print(f"{'promised':{WIDTH}}{f'≤ {PROMISED_IDLE_MB}':>12}{f'≤ {PROMISED_IDLE_MB}':>12}")


async def idle_memory(mode: Mode, spec: SandboxSpec) -> tuple[float, float]:
    """Megabytes that each of many idle sandboxes adds to the spawner and its descendants, and takes from the machine.

    No other child may run meanwhile: whatever descends from this process is taken to be the spawner's.
    """
    async with EmbeddedBackend(mode) as backend:
        await backend.create(spec)
        held, free = proportional_memory(os.getpid()), available_memory()
        for _ in range(IDLE):
            await backend.create(spec)
        return (
            (proportional_memory(os.getpid()) - held) / IDLE / 1e6,
            (free - available_memory()) / IDLE / 1e6,
        )


def open_docker(stack: contextlib.ExitStack, root: Path) -> DockerRuns | None:
    """Docker with `root` as its image, closed with the stack; None, said aloud, where there is none."""
    try:
        engine, version = stack.enter_context(open_engine(root))
    except DockerError as error:
        print(f"Docker is left out: {error}")
        return None
    print(version)
    return DockerRuns(engine, stack.enter_context(ThreadPoolExecutor(max(RUNS_PER_ROUND))))


async def compare(modes: Sequence[Mode], images: Sequence[Image], docker: DockerRuns | None) -> None:
    async with contextlib.AsyncExitStack() as stack:
        backends: dict[str, SandboxBackend] = {
            mode: await stack.enter_async_context(EmbeddedBackend(mode)) for mode in modes
        }
        await report_start_to_exit(start_to_exit(backends, images, docker))
        cases = lifecycles(backends, images, docker)
        await report_steps(cases)
        await report_rates(cases)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end in good order like after Ctrl-C
    modes: tuple[Mode, ...] = ("userns", "root") if os.geteuid() == 0 else ("user",)
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory(prefix="seatrial-benchmark-") as folder:
        root, images = Path(folder, "busybox"), [HOST_IMAGE]
        try:
            make_busybox_root(root)
            images.insert(0, Image("busybox", layers=(root,)))
        except DockerError as error:
            print(f"The small image and Docker are left out: {error}")
        with contextlib.ExitStack() as stack:
            docker = open_docker(stack, root) if root.exists() else None
            asyncio.run(compare(modes, images, docker))
        asyncio.run(report_idle_memory(modes, images))
    print(f"\nload average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
