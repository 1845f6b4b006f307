"""A coordinator of 100 nodes with 10,000 trials under way: what is full first, and at how many ends a second.

Pool, seats, queue, retries, store and writer are the real ones. The nodes are not: their runners are timers in this
process, which say what a real trial of an example said and hand in what it left. What they use themselves is measured
and subtracted; what Ray needs for the calls is not in it: see `benchmarks.engines`. The first trials end in a random
order over the time of one, so that ends come evenly from the start. Takes four minutes; `--here` keeps the job's folder
in the temporary directory of this machine instead of in memory.
"""

import asyncio
import io
import os
import random
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

from benchmarks.engines import memory_mb, own_sec
from benchmarks.trials import EXAMPLES, MEMORY, scratch
from seatrial.cli.long_run import relax_gc
from seatrial.jobs.api import run_trial
from seatrial.jobs.carry_out import carry_out
from seatrial.jobs.prepare import PreparedJob, prepare_job
from seatrial.jobs.ray.archives import pack_folder
from seatrial.jobs.ray.cluster import ClusterNode, RunnerLink
from seatrial.jobs.ray.engine import keep_late
from seatrial.jobs.ray.pool import NodePool, PoolOptions, open_pool
from seatrial.jobs.ray.runner import Outbox
from seatrial.jobs.ray.wire import Batch, Happened, NodeReport, RunnerSettings, TrialEnded
from seatrial.model.job import AgentOptions, JobSpec, ModelOptions, RunOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import Capabilities
from seatrial.trial.events import Event, Observer, PhaseStarted, TrialFinished, TrialStarted

NODES, SLOTS = 100, 100
LIVE = NODES * SLOTS
ENDS_PER_SEC = (33, 100, 200, 400, 800)
WINDOW_SEC = 20.0
POLL_SEC = 20.0
BEAT_SEC = 0.05


@dataclass(eq=False, slots=True)
class World:
    """What all simulated nodes share: what a trial comes to, how long it takes, and what simulating it has used."""

    record: TrialRecord
    phases: Sequence[PhaseStarted]
    archive: bytes
    content: int
    trial_sec: float
    used_sec: float = 0.0
    begun: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - no secret

    def next_duration(self) -> float:
        self.begun += 1
        return self.trial_sec * (self.chance.uniform(0, 1) if self.begun <= LIVE else self.chance.uniform(0.5, 1.5))


class SimulatedRunner:
    """Says what a runner would say, when it would say it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._outbox = Outbox()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def lacks(self, needs: Sequence[bytes]) -> list[str]:
        return []

    async def receive(self, digest: str, offset: int, piece: bytes) -> str | None:
        return None

    async def complete(self, need: bytes) -> str | None:
        return None

    async def settle(self, settings: bytes) -> bytes:
        able = Capabilities("null", "none", "simulated")
        report = NodeReport(
            version="0", python="3", host="", pid=1, cores=64, memory_mb=2**20, disk_free_mb=2**20, slots=SLOTS
        )
        return report.model_copy(update={"capabilities": able}).model_dump_json().encode()

    async def try_out(self, plan: bytes) -> str | None:
        return None

    async def start(self, lease: str, spec: bytes) -> None:
        loop = asyncio.get_running_loop()
        self._timers[lease] = loop.call_later(self._world.next_duration(), self._end, lease)

    async def news(self, seen: int) -> Batch:
        return await self._outbox.collect(seen, POLL_SEC)

    async def held(self) -> list[str]:
        return list(self._timers)

    async def piece(self, lease: str, offset: int) -> bytes:
        return b""

    async def drop(self, lease: str) -> None:
        if timer := self._timers.pop(lease, None):
            timer.cancel()

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()

    def _end(self, lease: str) -> None:
        """All that it has to say comes with its end: when it is said makes no difference to what it costs."""
        began, world = time.thread_time(), self._world
        del self._timers[lease]
        trial_id = lease.partition(".")[2]
        for phase in world.phases:
            self._outbox.post(Happened(lease=lease, phase=PhaseStarted(trial_id, phase.phase, phase.step)))
        attempt = int(trial_id.rpartition(".")[2])
        record = world.record.model_copy(update={"trial_id": trial_id, "attempt": attempt})
        ended = TrialEnded(lease=lease, record=record, size=len(world.archive), content=world.content)
        self._outbox.post(ended, world.archive)
        world.used_sec += time.thread_time() - began


class SimulatedCluster:
    """Nodes that are always there."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def nodes(self) -> Sequence[ClusterNode]:
        return [ClusterNode(f"id-{number}", f"node-{number}") for number in range(NODES)]

    async def connect(self, node: ClusterNode) -> RunnerLink:
        return SimulatedRunner(self._world)


class Window:
    """Counts what happens in the time in which all places are taken."""

    def __init__(self) -> None:
        self.live = self.ends = self.events = 0
        self.full = asyncio.Event()

    def __call__(self, event: Event) -> None:
        self.events += 1
        if isinstance(event, TrialStarted):
            self.live += 1
            if self.live == LIVE:
                self.full.set()
        elif isinstance(event, TrialFinished):
            self.live -= 1
            self.ends += 1


async def watch(window: Window, world: World, asked: int) -> None:
    """Wait until all places are taken, then measure and print."""
    began = time.perf_counter()
    await window.full.wait()
    filled = time.perf_counter() - began
    events, ends, wall = window.events, window.ends, time.perf_counter()
    own, simulated, worst = own_sec(), world.used_sec, 0.0
    while time.perf_counter() - wall < WINDOW_SEC:
        beat = time.perf_counter()
        await asyncio.sleep(BEAT_SEC)
        worst = max(worst, time.perf_counter() - beat - BEAT_SEC)
    took, used = time.perf_counter() - wall, own_sec() - own
    ours, count = used - (world.used_sec - simulated), max(window.ends - ends, 1)
    print(
        f"  {asked:>13} {count / took:9.0f} {(window.events - events) / took:10.0f} {ours / took:11.0%}"
        f" {ours / count * 1000:12.2f} ms {worst * 1000:9.0f} ms {window.live:9,}"
        f" {memory_mb():8.0f} MB {filled:8.1f} s",
        flush=True,
    )


@dataclass(frozen=True, slots=True)
class SimulatedEngine:
    """The nodes of a simulated cluster."""

    world: World
    options: PoolOptions

    def open(self, _job: PreparedJob, _observe: Observer) -> AbstractAsyncContextManager[NodePool]:
        return open_pool(SimulatedCluster(self.world), self.options)


async def simulate(world: World, folder: Path, asked: int) -> None:
    """Run a job of enough trials until it has been watched."""
    attempts = LIVE + int(asked * WINDOW_SEC * 3)
    trial = TrialOptions(image="host")
    spec = JobSpec(
        name="simulated",
        tasks=(str(EXAMPLES / "voltage-drop"),),
        agents=(AgentOptions(name="oracle"),),
        attempts=attempts,
        trial=trial,
        run=RunOptions(engine="ray", preflight=False),
    )
    job, window = prepare_job(spec, folder), Window()
    settings = RunnerSettings(trial=trial, model=ModelOptions(), slots=4 * LIVE)
    options = PoolOptions(settings, lambda _: None, keep_late(job.store), window)
    with job.store.lock():
        running = asyncio.ensure_future(carry_out(job, SimulatedEngine(world, options), window))
        await watch(window, world, asked)
        running.cancel()
        await asyncio.wait((running,))


def real_trial() -> World:
    """What a trial of an example says and leaves."""
    with scratch(MEMORY) as folder:
        record = run_trial(EXAMPLES / "voltage-drop", "oracle", options=TrialOptions(image="host"), folder=folder)
        archive = io.BytesIO()
        content = pack_folder(folder, archive)
    phases = [PhaseStarted(record.trial_id, each.phase, each.step) for each in record.times]
    return World(record, phases, archive.getvalue(), content, 0.0)


def one(world: World, asked: int, place: str | None) -> None:
    """One rate, in a process of its own: the memory of one is not the next one's."""
    relax_gc()
    with scratch(place) as folder:
        asyncio.run(simulate(world, folder / "job", asked))


def main() -> None:
    """Measure and print."""
    template, place = real_trial(), None if "--here" in sys.argv else MEMORY
    size = len(template.record.model_dump_json())
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    print(f"{NODES} nodes, {LIVE:,} trials under way, each with a record of {size:,} bytes, an archive of", end=" ")
    print(f"{len(template.archive):,} bytes and {len(template.phases)} phases; {WINDOW_SEC:g} s each")
    print("   asked, ends/s   ends/s   events/s   CPU, 1 core   per trial   loop late   under way   memory   filled in")
    for asked in ENDS_PER_SEC:
        world = replace(template, trial_sec=LIVE / asked)
        process = get_context("spawn").Process(target=one, args=(world, asked, place))
        process.start()
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main()
