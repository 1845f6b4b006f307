"""The engine for many machines against the one for this machine, in turns: what it adds to every trial.

Both run the same trials, on sandboxes that do nothing, with records in memory; Ray has one node, on this machine. Each
turn is a process of its own. What a coordinator uses is the CPU time of that process alone; with the local engine the
trials are in it, with Ray they are in the runner's. Takes about four minutes; `--long` adds 10,000 null trials.
"""

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.null_backends import install_backends
from benchmarks.trials import EXAMPLES, MEMORY, cpu_sec, scratch
from seatrial.cli.long_run import relax_gc
from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.trial.events import Event, TrialFinished, TrialStarted

COUNT, LONG_COUNT = 2_000, 10_000
FIRST = 1_000
SLOW_COUNT = 200
AT_ONCE = 100
SLOW_AT_ONCE = (4, 8)  # as many as two cores take by themselves, and twice that
TURNS, LONG_TURNS = 3, 1
ENGINES = ("local", "ray")

PROMISED_MS = 5.0
PROMISED_SHARE = 0.9  # with the first of these; node, coordinator and Ray's own processes share this machine's cores


@dataclass(frozen=True, slots=True)
class Measured:
    """One run: seconds to the first trial, trials per second from then on, CPU per trial, memory on the way."""

    start_sec: float
    rate: float
    coordinator_ms: float
    machine_ms: float
    first_mb: float
    last_mb: float


class Meter:
    """Observes a job, and notes what this process had used when."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.started = self.ended = 0.0
        self.finished = 0
        self.own = self.all = self.first_mb = 0.0

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialStarted) and not self.started:
            self.started, self.own, self.all = time.perf_counter(), own_sec(), cpu_sec()
        if isinstance(event, TrialFinished):
            self.finished += 1
            self.ended = time.perf_counter()
            if self.finished == FIRST:
                self.first_mb = memory_mb()

    def measured(self, own: float, machine: float) -> Measured:
        count = self.finished
        return Measured(
            self.started - self.began,
            count / (self.ended - self.started),
            (own - self.own) / count * 1000,
            (machine - self.all) / count * 1000,
            self.first_mb,
            memory_mb(),
        )


def own_sec() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def run(engine: str, backend: str, count: int, concurrent: int) -> Measured:
    """Run a job in this process."""
    with scratch(MEMORY) as folder:
        install_backends(folder / "site")
        spec = JobSpec(
            name="bench",
            tasks=(str(EXAMPLES / "voltage-drop"),),
            agents=(AgentOptions(name="oracle"),),
            attempts=count,
            trial=TrialOptions(backend=backend, image="host"),
            run=RunOptions(engine=engine, concurrent=concurrent, preflight=False),
        )
        job, meter = prepare_job(spec, folder / "job"), Meter()
        used: list[float] = []

        def observe(event: Event) -> None:
            meter(event)
            if meter.finished == count and not used:  # before Ray is ended, with all that it has used
                used.extend((own_sec(), cpu_sec()))

        outcome = await run_prepared(job, observe)
        assert outcome.finished == count
        return meter.measured(*used)


def turn(engine: str, backend: str, count: int, concurrent: int) -> Measured:
    """Run a job in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.engines", "turn", engine, backend, str(count), str(concurrent)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return Measured(**json.loads(ended.stdout.splitlines()[-1]))


def turns(backend: str, count: int, concurrent: int, times: int) -> dict[str, list[Measured]]:
    found: dict[str, list[Measured]] = {engine: [] for engine in ENGINES}
    for _ in range(times):
        for engine in ENGINES:
            found[engine].append(turn(engine, backend, count, concurrent))
    return found


def median(runs: list[Measured], name: str) -> float:
    return statistics.median([float(getattr(run, name)) for run in runs])


def show_null(count: int, times: int) -> None:
    found = turns("bench-null", count, AT_ONCE, times)
    print(f"{count:,} null trials, {AT_ONCE} at once, {times} turns, medians")
    print("          start      trials/s   CPU per trial: coordinator   machine   memory at 1,000   at the end")
    for engine, runs in found.items():
        print(
            f"  {engine:<6} {median(runs, 'start_sec'):5.2f} s {median(runs, 'rate'):11.0f}"
            f" {median(runs, 'coordinator_ms'):23.2f} ms {median(runs, 'machine_ms'):6.2f} ms"
            f" {median(runs, 'first_mb'):12.0f} MB {median(runs, 'last_mb'):9.0f} MB"
        )
    least = min(run.coordinator_ms for run in found["ray"])
    ratio = median(found["ray"], "coordinator_ms") / median(found["local"], "coordinator_ms")
    print(f"  coordinator: ray/local {ratio:.2f}, least of ray {least:.2f} ms   promised ≤ {PROMISED_MS:g} ms with ray")


def show_slow(concurrent: int, times: int) -> None:
    found = turns("bench-slow", SLOW_COUNT, concurrent, times)
    local, ray = (found[engine] for engine in ENGINES)
    shares = [there.rate / here.rate for here, there in zip(local, ray, strict=True)]
    print(f"{SLOW_COUNT} trials of 100 ms, {concurrent} at once, {times} turns, medians")
    print(f"  local {median(local, 'rate'):6.1f} trials/s   ray {median(ray, 'rate'):6.1f} trials/s", end="   ")
    promise = f"   promised ≥ {PROMISED_SHARE:g}" if concurrent == SLOW_AT_ONCE[0] else ""
    print(f"ray/local {statistics.median(shares):.3f}{promise}")
    costs = "   ".join(f"{engine} {median(runs, 'coordinator_ms'):.2f} ms" for engine, runs in found.items())
    print(f"  CPU of the coordinator per trial: {costs}   promised ≤ {PROMISED_MS:g} ms")


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == ["turn"]:
        engine, backend, *numbers = sys.argv[2:]
        relax_gc()  # as `seatrial run` does
        print(json.dumps(asdict(asyncio.run(run(engine, backend, *map(int, numbers))))))
        return
    if find_spec("ray") is None:
        print("engines: Ray is not installed; make EXTRAS=dev,ray bench")
        return
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    for concurrent in SLOW_AT_ONCE:
        show_slow(concurrent, TURNS)
    show_null(COUNT, TURNS)
    if "--long" in sys.argv:
        show_null(LONG_COUNT, LONG_TURNS)
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
