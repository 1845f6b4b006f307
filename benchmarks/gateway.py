"""What the gateway adds to a model call: time and processor time, beside the same call without it in the same run.

Client, gateway and provider are processes of their own. Beside the gateway stands a proxy that only passes on, the
least that aiohttp can do. All numbers are the best of several rounds, in which the ways take turns: other work on the
machine only ever makes them worse. Times at 64 connections are taken at a steady rate, for where all wait for one
processor only the queue is measured. With few connections or streams most processor time goes into waking up, for the
bare proxy as well. Takes about a minute.
"""

import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.gateway_client import HELLO, Connection, connect
from benchmarks.gateway_processes import EVENT_SEC, HELD_SEC

ROUNDS = 7
CALLS = 300
RATE_PER_SEC = 300
STREAM_ROUNDS = 4
STREAMS = (8, 64)
PARALLEL = 32
TURNS, TURN_BYTES = 400, 2048


@dataclass
class Process:
    """A process of `benchmarks.gateway_processes`, and what it said when it was ready."""

    arguments: tuple[str, ...]
    ready: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> "Process":
        command = [sys.executable, "-m", "benchmarks.gateway_processes", *self.arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self._read()
        # How Linux names the processor clock of another process: all its threads, to the nanosecond.
        self._clock = (~self._process.pid << 3) | 2
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()

    def tell(self, command: str) -> None:
        assert self._process.stdin
        print(command, file=self._process.stdin, flush=True)

    def ask(self, command: str) -> dict[str, Any]:
        self.tell(command)
        return self._read()

    def cpu_sec(self) -> float:
        return time.clock_gettime(self._clock)

    def resident_bytes(self) -> int:
        """The most memory it ever had in use."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        value: dict[str, Any] = json.loads(self._process.stdout.readline())
        return value


def show(what: str, measured: float, unit: str, promised: float | None = None) -> None:
    verdict = "" if promised is None else f"promised ≤ {promised:g} {unit}   "
    verdict += "" if promised is None else "kept" if measured <= promised else "BROKEN"
    print(f"  {what:52} {measured:9.3f} {unit:3} {verdict}")


async def timed(connection: Connection) -> float:
    start = time.perf_counter()
    await connection.ask(HELLO)
    return time.perf_counter() - start


async def one_after_the_other(connections: list[Connection]) -> list[float]:
    return [await timed(connections[0]) for _ in range(CALLS)]


async def at_a_steady_rate(connections: list[Connection]) -> list[float]:
    """Every connection in its turn, at a rate at which nothing has to wait for a processor."""
    loop = asyncio.get_running_loop()
    start = loop.time()

    async def go(number: int) -> list[float]:
        times = []
        for turn in range(number, CALLS, len(connections)):
            await asyncio.sleep(start + turn / RATE_PER_SEC - loop.time())
            times.append(await timed(connections[number]))
        return times

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(go(number)) for number in range(len(connections))]
    return [each for task in tasks for each in task.result()]


async def as_fast_as_it_goes(connections: list[Connection]) -> list[float]:
    async def go(connection: Connection) -> list[float]:
        return [await timed(connection) for _ in range(max(4, CALLS * 4 // len(connections)))]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(go(connection)) for connection in connections]
    return [each for task in tasks for each in task.result()]


Load = Callable[[list[Connection]], Awaitable[list[float]]]
Ways = Mapping[str, Process]
Promised = Mapping[str, float]


async def measure_calls(direct: str, ways: Ways, count: int, load: Load, promised: Promised) -> None:
    """Added median time and processor time per call, over so many connections, through the gateway and a bare proxy."""
    best: dict[str, float] = defaultdict(lambda: math.inf)
    async with AsyncExitStack() as stack:
        straight = [await stack.enter_async_context(connect(direct)) for _ in range(count)]
        opened = {name: await open_all(stack, process, count) for name, process in ways.items()}
        for _ in range(ROUNDS):
            plain = statistics.median(await load(straight))
            best["direct p50"] = min(best["direct p50"], plain)
            for name, process in ways.items():
                before = process.cpu_sec()
                times = await load(opened[name])
                cpu, added = (process.cpu_sec() - before) / len(times), statistics.median(times) - plain
                best[f"{name}, added p50"] = min(best[f"{name}, added p50"], added)
                best[f"{name}, CPU per call"] = min(best[f"{name}, CPU per call"], cpu)
    print(f"{count} connection{'s' * (count > 1)}, {load.__name__.replace('_', ' ')}")
    for name, measured in best.items():
        show(name, measured * 1000, "ms", promised.get(name))


async def open_all(stack: AsyncExitStack, process: Process, count: int) -> list[Connection]:
    url, key = process.ready["url"], process.ready["key"]
    return [await stack.enter_async_context(connect(url, key)) for _ in range(count)]


async def measure_streams(ways: Ways, count: int, promised: Promised) -> None:
    """Processor time per event, sent as a chunk of its own, with the cost of the call spread over them."""
    best: dict[str, float] = defaultdict(lambda: math.inf)
    async with AsyncExitStack() as stack:
        opened = {name: await open_all(stack, process, count) for name, process in ways.items()}
        for _ in range(STREAM_ROUNDS):
            for name, process in ways.items():
                before = process.cpu_sec()
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(each.ask(HELLO, stream=True)) for each in opened[name]]
                events = sum(task.result().count(b"\n\n") for task in tasks)
                best[name] = min(best[name], (process.cpu_sec() - before) / events)
    print(f"{count} streams, an event of each every {EVENT_SEC * 1000:g} ms")
    for name, measured in best.items():
        show(f"{name}, CPU per chunk", measured * 1e6, "µs", promised.get(name))


async def measure_crowd(gateway: Process, count: int, calls: int) -> None:
    """So many connections at once, none of which may fail."""

    async def go() -> None:
        async with connect(gateway.ready["url"], gateway.ready["key"]) as connection:
            for _ in range(calls):
                await connection.ask(HELLO)

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(go()) for _ in range(count)]
    failed = sum(task.exception() is not None for task in tasks)
    show(f"{count:,} connects at once, {calls} calls each: errors", failed, "", 0)
    show("in", time.perf_counter() - start, "s")


async def measure_parallel(provider: Process, gateway: Process) -> None:
    """Calls of one agent, none of which is answered before all are there."""
    provider.tell(str(PARALLEL))
    start = time.perf_counter()
    async with AsyncExitStack() as stack, asyncio.timeout(30), asyncio.TaskGroup() as group:
        for _ in range(PARALLEL):
            connection = await stack.enter_async_context(connect(gateway.ready["url"], gateway.ready["key"]))
            group.create_task(connection.ask(HELLO))
    show(f"{PARALLEL} calls of {HELD_SEC} s at once take", time.perf_counter() - start, "s", 2 * HELD_SEC)


async def converse(gateway: Process) -> None:
    """A conversation that grows by a turn with every call."""
    turn = "x" * TURN_BYTES
    messages: list[dict[str, str]] = []
    async with connect(gateway.ready["url"], gateway.ready["key"]) as connection:
        for number in range(TURNS):
            messages.append({"role": ("user", "assistant")[number % 2], "content": f"{number} {turn}"})
            await connection.ask(messages)


async def measure_memory(gateway: Process) -> None:
    """What a long conversation keeps, and how much it makes the process grow; the second time it is traced."""
    async with connect(gateway.ready["url"], gateway.ready["key"]) as connection:
        await connection.ask(HELLO)
    small = gateway.resident_bytes()
    await converse(gateway)
    grown = gateway.resident_bytes() - small
    before = gateway.ask("trace")["current"]
    await converse(gateway)
    told = gateway.ask("memory")
    print(f"a conversation of {TURNS} turns of {TURN_BYTES} bytes")
    show("memory that it keeps", (told["current"] - before) / 2**20, "MiB", 4)
    show("memory at most, with what the parser sets aside", (told["peak"] - before) / 2**20, "MiB")
    show("growth of the process at most", grown / 2**20, "MiB")


async def measure() -> None:
    with Process(("provider",)) as provider:
        fast, streaming, held = (provider.ready[name] for name in ("fast", "streaming", "held"))
        with Process(("gateway", fast)) as gateway, Process(("bare", fast)) as bare:
            ways = {"gateway": gateway, "bare aiohttp": bare}
            cpu, time_too = {"gateway, CPU per call": 0.2}, {"gateway, added p50": 0.5}
            await measure_calls(fast, ways, 1, one_after_the_other, cpu | time_too)
            await measure_calls(fast, ways, 64, at_a_steady_rate, time_too)
            await measure_calls(fast, ways, 64, as_fast_as_it_goes, cpu)
            await measure_crowd(gateway, 512, 4)
            await measure_crowd(gateway, 2000, 1)
        with Process(("gateway", streaming)) as gateway, Process(("bare", streaming)) as bare:
            for count in STREAMS:
                await measure_streams({"gateway": gateway, "bare aiohttp": bare}, count, {"gateway": 30.0})
        with Process(("gateway", held)) as gateway:
            await measure_parallel(provider, gateway)
        with Process(("gateway", fast)) as gateway:
            await measure_memory(gateway)


def main() -> None:
    def load() -> str:
        return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"

    print(f"at the start: {load()}")
    asyncio.run(measure())
    print(f"at the end: {load()}")


if __name__ == "__main__":
    main()
