"""What a trial costs: on a sandbox that does nothing, on a real one, and against the same commands run plainly.

Rates depend on the machine; CPU times and ratios are what we promise. Trials and plain commands take turns, for the
speed of a machine changes from one minute to the next, by more than what is measured. The medians of all turns are what
the promise is about; the least CPU times are beside them, since other work on the machine only ever makes them longer.
Takes about three minutes; with `--long` the null sandbox also runs 100,000 trials.
"""

import asyncio
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

from seatrial.cli.long_run import relax_gc
from seatrial.jobs.admission import LimitedStarts, cores
from seatrial.jobs.carry_out import carry_out
from seatrial.jobs.places import LocalPlaces
from seatrial.jobs.plan import plan_trials
from seatrial.jobs.prepare import PreparedJob, lock_task, make_job_file
from seatrial.model.job import AgentOptions, JobSpec, RunOptions
from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import DEFAULT_PATH, SandboxBackend
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.store.job_store import JobStore
from seatrial.tasks.load import load_dataset
from seatrial.testing.null import NullBackend
from seatrial.trial.events import Observer
from seatrial.trial.run import run_trial
from seatrial.trial.spec import Machinery

EXAMPLES = Path(__file__).parent.parent / "examples" / "tasks"
NULL_COUNTS = (1_000, 10_000)
LONG_COUNT = 100_000
NULL_CONCURRENT = 100
TURNS, ROUNDS = 7, 5
CHANGED_TURNS = 9
AT_ONCE = (8, 32)
SERVICE = "unit-service"  # plainly run, it would keep a port and go on for ever

PROMISED_NULL_MS = 1.0
PROMISED_EMBEDDED_MS = 40.0
PROMISED_SHARE = 0.5
PROMISED_CHANGED = 2.5

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
REPORT = b'# Report\n\n```json\n{"voltage_drop_v": 9.4, "voltage_drop_pct": 2.35, "compliant": true}\n```\n'
ANSWER = f"printf '%s' '{REPORT.decode()}' > /workspace/report.md"
SITE = "$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))')"
# What honest agents do to a system, from little to much.
CHANGES = {
    "the system as it was": ANSWER,
    "one file in /usr": f"{ANSWER}; echo x > /usr/share/honest.txt",
    "a Python package of 100 files": f"{ANSWER}; d={SITE}/honest; mkdir -p $d $d-1.0.dist-info;"
    " touch $d-1.0.dist-info/RECORD;"
    " for n in $(seq 100); do echo 'x = 1' > $d/part$n.py; done",
    "a program of the image": f"{ANSWER}; echo '# mine' >> /usr/bin/ldd",
    "3,000 files in /usr/lib": f"{ANSWER}; mkdir -p /usr/lib/honest; cd /usr/lib/honest; seq 3000 | xargs touch",
}
NULL_FILES = {"/workspace/report.md": REPORT}


def cpu_sec() -> float:
    """Processor time of this process, of those it has waited for, and of those below it with what they waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    below = sum(_ticks(pid) for pid in _descendants(os.getpid()))
    return sum(each.ru_utime + each.ru_stime for each in used) + below / os.sysconf("SC_CLK_TCK")


def _descendants(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for file in threads for child in _read_if_there(file).split()]
    return [found for child in children for found in (child, *_descendants(child))]


def _ticks(pid: int) -> int:
    """Of a process with those it has waited for; none of one that has just ended, whose time is its parent's by now."""
    fields = _read_if_there(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _read_if_there(file: Path) -> str:
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@contextmanager
def scratch(place: str | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-", dir=place) as folder:
        yield Path(folder)


class BackendEngine:
    """Trials in sandboxes of a backend that is open already."""

    def __init__(self, backend: SandboxBackend, concurrent: int) -> None:
        self._machinery = Machinery(LimitedStarts(backend, 2 * cores()))
        self._concurrent = concurrent

    @asynccontextmanager
    async def open(self, _job: PreparedJob, _observe: Observer) -> AsyncIterator[LocalPlaces]:
        machinery = self._machinery
        yield LocalPlaces(lambda spec, folder, observe: run_trial(spec, machinery, folder, observe), self._concurrent)


async def run_trials(
    folder: Path,
    source: Path,
    attempts: int,
    concurrent: int,
    backend: SandboxBackend,
    agents: tuple[AgentOptions, ...] = (AgentOptions(name="oracle"),),
) -> int:
    """Run agents, the oracle unless others are given, on the tasks below a path; returns how many trials ran."""
    tasks = [task for task in load_dataset(source).tasks if task.root.name != SERVICE]
    run = RunOptions(concurrent=concurrent)
    spec = JobSpec(name="bench", tasks=(str(source),), agents=agents, attempts=attempts, run=run)
    store = JobStore.create(folder / "job", make_job_file(spec, map(lock_task, tasks)))
    trials = plan_trials([task.id for task in tasks], agents, attempts, None)
    with store.lock():
        job = PreparedJob(store, trials, {task.id: task for task in tasks})
        return (await carry_out(job, BackendEngine(backend, concurrent))).finished


async def null_cost(count: int, place: str | None = MEMORY) -> float:
    """Own CPU per trial in milliseconds, with the records in memory: what a disk costs is not ours."""
    with scratch(place) as folder:
        before = cpu_sec()
        async with NullBackend(NULL_FILES) as backend:
            done = await run_trials(folder, EXAMPLES / "voltage-drop", count, NULL_CONCURRENT, backend)
        assert done == count
        return (cpu_sec() - before) / count * 1000


class Run(NamedTuple):
    """Trials per second, and CPU milliseconds per trial with all that ran for it."""

    rate: float
    cpu_ms: float


async def embedded_run(concurrent: int, backend: SandboxBackend) -> Run:
    """The examples in sandboxes of a backend that is open already; records are in memory again."""
    with scratch(MEMORY) as folder:
        before, started = cpu_sec(), time.perf_counter()
        done = await run_trials(folder, EXAMPLES, ROUNDS, concurrent, backend)
        return Run(done / (time.perf_counter() - started), (cpu_sec() - before) / done * 1000)


def plain_trial(task: Path) -> None:
    """The same two commands in a scratch directory in memory, with nothing around them."""
    with scratch(MEMORY) as root:
        workdir = root / "workspace"
        if (task / "environment").is_dir():
            shutil.copytree(task / "environment", workdir)
        workdir.mkdir(exist_ok=True)
        environment = {"PATH": DEFAULT_PATH, "KIT_ROOT": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
        for script in ("solution/solve.sh", "tests/test.sh"):
            command = ["/bin/sh", str(task / script)]
            subprocess.run(command, cwd=workdir, env=environment, check=True, capture_output=True)


def plain_run(concurrent: int) -> Run:
    """The same as plain subprocesses."""
    tasks = [task for task in sorted(EXAMPLES.iterdir()) if task.name != SERVICE] * ROUNDS
    before, started = cpu_sec(), time.perf_counter()
    with ThreadPoolExecutor(concurrent) as threads:
        list(threads.map(plain_trial, tasks))
    return Run(len(tasks) / (time.perf_counter() - started), (cpu_sec() - before) / len(tasks) * 1000)


async def show_null(counts: tuple[int, ...]) -> None:
    print(f"own CPU per trial, null sandbox, {NULL_CONCURRENT} at once   promised ≤ {PROMISED_NULL_MS:g} ms, flat")
    for count in counts:
        print(f"  {count:>9,} trials   {await null_cost(count):6.2f} ms")


async def show_null_on_disk(count: int) -> None:
    """Last of all: some file systems are slow for minutes after many files have been removed."""
    print(f"\n  {count:>9,} trials   {await null_cost(count, None):6.2f} ms with the records on this machine's disk")


async def show_embedded() -> None:
    """Trials and plain commands in turns, after a turn that does not count."""
    print(f"\noracle on the examples, {TURNS} turns   medians                    least of all       medians")
    print("             trials/s, ours   plain   share   CPU per trial, ours   plain   added      ours   plain   added")
    async with EmbeddedBackend() as backend:
        for concurrent in AT_ONCE:
            turns = [(plain_run(concurrent), await embedded_run(concurrent, backend)) for _ in range(TURNS + 1)][1:]
            plain, ours = (Run(*map(statistics.median, zip(*runs, strict=True))) for runs in zip(*turns, strict=True))
            share = statistics.median(mine.rate / theirs.rate for theirs, mine in turns)
            least_plain, least = (min(run.cpu_ms for run in runs) for runs in zip(*turns, strict=True))
            added = statistics.median(mine.cpu_ms - theirs.cpu_ms for theirs, mine in turns)
            print(
                f"  {concurrent:>3} at once  {ours.rate:10.1f} {plain.rate:7.1f} {share:7.2f}"
                f" {least:18.1f} ms {least_plain:5.1f} {least - least_plain:7.1f} ms"
                f" {ours.cpu_ms:7.1f} {plain.cpu_ms:7.1f} {added:7.1f} ms"
            )
    print(f"  promised: share ≥ {PROMISED_SHARE:g}, added ≤ {PROMISED_EMBEDDED_MS:g} ms, by the medians")


async def verification_ms(command: str, backend: SandboxBackend) -> float:
    """How long the verifier's turn takes after a command, in milliseconds: looking at the system, and judging."""
    agents = (AgentOptions(name="command", command=command),)
    with scratch(MEMORY) as folder:
        await run_trials(folder, EXAMPLES / "voltage-drop", 1, 1, backend, agents)
        (file,) = (folder / "job" / "trials").glob("*/record.json")
        record = TrialRecord.model_validate_json(file.read_bytes())
    assert record.evaluation is not None
    assert record.evaluation.reward == 1.0
    turns = [time.finished_at - time.started_at for time in record.times if time.phase == "verify"]
    return sum(turn.total_seconds() for turn in turns) * 1000


async def show_changed_systems() -> None:
    """The verifier's turn after agents that changed the system, beside its turn after one that did not, in turns."""
    print(
        f"\nthe verifier's turn, {CHANGED_TURNS} turns                    median   ratio to the first"
        f"   promised ≤ {PROMISED_CHANGED:g}"
    )
    async with EmbeddedBackend() as backend:
        turns = [
            [await verification_ms(command, backend) for command in CHANGES.values()] for _ in range(CHANGED_TURNS + 1)
        ][1:]
    for name, costs in zip(CHANGES, zip(*turns, strict=True), strict=True):
        ratio = statistics.median(cost / turn[0] for cost, turn in zip(costs, turns, strict=True))
        print(f"  {name:<36} {statistics.median(costs):7.1f} ms {ratio:9.2f}")


async def main() -> None:
    """Measure and print."""
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    await show_null((*NULL_COUNTS, LONG_COUNT) if "--long" in sys.argv else NULL_COUNTS)
    await show_embedded()
    await show_changed_systems()
    await show_null_on_disk(NULL_COUNTS[0])


if __name__ == "__main__":
    relax_gc()  # as `seatrial run` does
    asyncio.run(main())
