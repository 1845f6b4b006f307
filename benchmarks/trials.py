"""What a trial costs: on a sandbox that does nothing, on a real one, and against the same commands run plainly.

Rates depend on the machine; CPU times and ratios are what we promise. Takes about two minutes; with `--long` the null
sandbox also runs 100,000 trials.
"""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from seatrial.cli.long_run import settle_in
from seatrial.jobs.local import carry_out
from seatrial.jobs.lock import make_job_file
from seatrial.jobs.plan import plan_trials
from seatrial.model.job import AgentOptions, JobSpec, RunOptions
from seatrial.sandbox.api import DEFAULT_PATH, SandboxBackend
from seatrial.sandbox.embedded.backend import EmbeddedBackend
from seatrial.store.job_store import JobStore
from seatrial.tasks.dataset import load_dataset
from seatrial.testing.null import NullBackend

EXAMPLES = Path(__file__).parent.parent / "examples" / "tasks"
NULL_COUNTS = (1_000, 10_000)
LONG_COUNT = 100_000
NULL_CONCURRENT = 100
ROUNDS = 24  # enough for the start of the backend, some 0.3 s, not to matter
AT_ONCE = (8, 32)
SERVICE = "unit-service"  # plainly run, it would keep a port and go on for ever

PROMISED_NULL_MS = 1.0
PROMISED_EMBEDDED_MS = 40.0
PROMISED_SHARE = 0.5

MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: PTH112, S108
REPORT = b'# Report\n\n```json\n{"voltage_drop_v": 9.4, "voltage_drop_pct": 2.35, "compliant": true}\n```\n'
NULL_FILES = {"/workspace/report.md": REPORT}


def cpu_sec() -> float:
    """Processor time of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def scratch(place: str | None = None) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="seatrial-bench-", dir=place) as folder:
        yield Path(folder)


def run_trials(
    folder: Path, source: Path, attempts: int, concurrent: int, open_backend: Callable[[], SandboxBackend]
) -> int:
    """Run the oracle on the tasks below a path so many times; returns how many trials ran."""
    tasks = [task for task in load_dataset(source).tasks if task.root.name != SERVICE]
    agents = (AgentOptions(name="oracle"),)
    run = RunOptions(concurrent=concurrent)
    spec = JobSpec(name="bench", tasks=(str(source),), agents=agents, attempts=attempts, run=run)
    store = JobStore.create(folder / "job", make_job_file(spec, tasks))
    trials = plan_trials([task.id for task in tasks], agents, attempts, None)

    async def work() -> int:
        async with open_backend() as backend:
            return (await carry_out(store, trials, {task.id: task for task in tasks}, backend)).finished

    with store.lock():
        return asyncio.run(work())


def null_cost(count: int, place: str | None = MEMORY) -> float:
    """Own CPU per trial in milliseconds, with the records in memory: what a disk costs is not ours."""
    with scratch(place) as folder:
        before = cpu_sec()
        done = run_trials(folder, EXAMPLES / "voltage-drop", count, NULL_CONCURRENT, lambda: NullBackend(NULL_FILES))
        assert done == count
        return (cpu_sec() - before) / count * 1000


def embedded_run(concurrent: int) -> tuple[float, float]:
    """Trials per second, and CPU seconds per trial with all that ran in the sandboxes; records are in memory again."""
    with scratch(MEMORY) as folder:
        before, started = cpu_sec(), time.perf_counter()
        done = run_trials(folder, EXAMPLES, ROUNDS, concurrent, EmbeddedBackend)
        return done / (time.perf_counter() - started), (cpu_sec() - before) / done


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


def plain_run(concurrent: int) -> tuple[float, float]:
    """Trials per second and CPU seconds per trial of plain subprocesses."""
    tasks = [task for task in sorted(EXAMPLES.iterdir()) if task.name != SERVICE] * ROUNDS
    before, started = cpu_sec(), time.perf_counter()
    with ThreadPoolExecutor(concurrent) as threads:
        list(threads.map(plain_trial, tasks))
    return len(tasks) / (time.perf_counter() - started), (cpu_sec() - before) / len(tasks)


def show_null(counts: tuple[int, ...]) -> None:
    print(f"own CPU per trial, null sandbox, {NULL_CONCURRENT} at once   promised ≤ {PROMISED_NULL_MS:g} ms, flat")
    for count in counts:
        print(f"  {count:>9,} trials   {null_cost(count):6.2f} ms")
    print(f"  {counts[0]:>9,} trials   {null_cost(counts[0], None):6.2f} ms with the records on this machine's disk")


def show_embedded() -> None:
    print("\noracle on the examples     trials/s, ours   plain   share   CPU per trial, ours   plain   added")
    for concurrent in AT_ONCE:
        plain_rate, plain_cpu = plain_run(concurrent)
        rate, cpu = embedded_run(concurrent)
        added = (cpu - plain_cpu) * 1000
        print(
            f"  {concurrent:>3} at once                {rate:10.1f} {plain_rate:7.1f} {rate / plain_rate:7.2f}"
            f" {cpu * 1000:18.1f} ms {plain_cpu * 1000:5.1f} {added:5.1f} ms"
        )
    promised = f"share ≥ {PROMISED_SHARE:g}, added ≤ {PROMISED_EMBEDDED_MS:g} ms"
    print(f"  promised: {promised}")


if __name__ == "__main__":
    settle_in()  # as `seatrial run` does
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the start")
    show_null((*NULL_COUNTS, LONG_COUNT) if "--long" in sys.argv else NULL_COUNTS)
    show_embedded()
