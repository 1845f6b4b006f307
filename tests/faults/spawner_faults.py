"""What the tests of stopped and killed processes share: a job of honest trials, and our processes by their role."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from seatrial.jobs.api import prepare_job, run_prepared
from seatrial.model.job import AgentOptions, JobSpec, RunOptions, TrialOptions
from seatrial.model.record import Phase
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, PhaseStarted, TrialRetried
from tests.sandbox.embedded.support import TIMEOUT_SEC, processes, read
from tests.trial.support import ANSWER, write_task

HONEST = AgentOptions(name="command", command=f"echo right > {ANSWER}")
STUCK = AgentOptions(name="command", command="sleep 1000")


@dataclass
class Fault:
    """Does something to our processes once, when a trial first comes to a phase; keeps what is told of the job."""

    act: Callable[[], None]
    when: Phase
    done: bool = False
    retried: list[TrialRetried] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrialRetried):
            self.retried.append(event)
        if isinstance(event, PhaseStarted) and event.phase == self.when and not self.done:
            self.done = True
            self.act()


def run_honest_trials(folder: Path, observe: Callable[[Event], None], *, agent: AgentOptions = HONEST) -> JobStore:
    """Run three trials side by side, each of which deserves a 1, within a time that no healthy machine needs."""
    for name in ("one", "two", "three"):
        write_task(folder / "tasks" / name)
    spec = JobSpec(
        name="faults",
        tasks=(str(folder / "tasks"),),
        agents=(agent,),
        trial=TrialOptions(image="host", backend="embedded"),
        run=RunOptions(concurrent=3, retries=3),
    )
    job = prepare_job(spec, folder / "job")

    async def play() -> None:
        async with asyncio.timeout(TIMEOUT_SEC):
            await run_prepared(job, observe)

    asyncio.run(play())
    return job.store


def rewards(store: JobStore) -> list[float | None]:
    """The reward of each trial, None for one without a verdict."""
    records = [store.record(trial_id) for trial_id in sorted(store.finished())]
    return [record.evaluation.reward if record.evaluation else None for record in records]


def first_stage(state: Path) -> int:
    """The process that waits for the spawner of a state directory."""
    return min(processes(str(state)))


def spawner(state: Path) -> int:
    """The spawner of a state directory."""
    first = first_stage(state)
    return next(pid for pid in processes(str(state)) if parent_of(pid) == first)


def outer_inits(state: Path) -> list[int]:
    """The first processes of the sandboxes of a spawner."""
    chief = spawner(state)
    return [pid for pid in _inits() if parent_of(pid) == chief]


def inner_inits(state: Path) -> list[int]:
    """The first processes of what agents started."""
    outer = outer_inits(state)
    return [pid for pid in _inits() if parent_of(pid) in outer]


def _inits() -> list[int]:
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if read(Path(f"/proc/{pid}/cmdline")).startswith("init run-")]


def parent_of(pid: int) -> int:
    """The process that started another, 0 when that is gone."""
    return int(read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[1:2][0] or 0) if alive(pid) else 0


def alive(pid: int) -> bool:
    """Whether there is such a process."""
    return os.path.exists(f"/proc/{pid}/stat")  # noqa: PTH110 - asked often
