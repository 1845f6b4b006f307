"""Planning and resuming large jobs, and what storing a trial costs: CPU time against what is promised.

What a file system takes for itself differs from one to the next, so storing is measured in memory; `--here` measures it
in the temporary directory of this machine instead, where nothing is promised.
"""

import asyncio
import datetime as dt
import resource
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.corpus import TASK_COUNT, make_corpus
from seatrial.jobs.carry_out import carry_out
from seatrial.jobs.places import LocalPlaces
from seatrial.jobs.plan import plan_trials
from seatrial.jobs.prepare import PreparedJob, prepare_job
from seatrial.jobs.resume import prepare_resume
from seatrial.model.base import to_json
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, RunOptions
from seatrial.model.record import AgentRef, PhaseTime, SandboxRef, TaskRef, TrialRecord
from seatrial.store.index import Index, entry_of, stamp_of
from seatrial.store.job_store import JobStore
from seatrial.tasks.load import load_task
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

NOOP = AgentOptions(name="noop")
DIGEST = "0" * 64
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def cpu_sec() -> float:
    """What this process and its children have used so far."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def show(what: str, measured: float, promised: float | None, unit: str = "s") -> None:
    verdict = (
        "" if promised is None else f"promised ≤ {promised} {unit}   {'kept' if measured <= promised else 'BROKEN'}"
    )
    print(f"{what:46} {measured:7.3f} {unit} CPU   {verdict}")


def make_record(trial_id: str, task_id: str, attempt: int) -> TrialRecord:
    return TrialRecord(
        trial_id=trial_id,
        task=TaskRef(id=task_id, name=task_id, digest=DIGEST),
        agent=AgentRef(name="noop"),
        sandbox=SandboxRef(backend="null", image="host", network="none"),
        attempt=attempt,
        times=(PhaseTime(phase="agent", started_at=NOW, finished_at=NOW),),
        evaluation=EvaluationResult(
            reward=1.0, validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True)
        ),
    )


def make_store(folder: Path, tasks: int, attempts: int, root: Path = Path("/nowhere")) -> JobStore:
    spec = JobSpec(name="bench", tasks=(str(root),), agents=(NOOP,), attempts=attempts, run=RunOptions(concurrent=100))
    names = [f"task-{number:05}" for number in range(tasks)]
    locked = tuple(LockedTask(id=name, name=name, root=str(root / name), digest=DIGEST) for name in names)
    return JobStore.create(folder, JobFile(seatrial_version="0", created_at=NOW, spec=spec, tasks=locked))


def make_finished(folder: Path, tasks: int, attempts: int) -> None:
    """A job whose trials all have records, as the engine leaves them but without its care."""
    store = make_store(folder, tasks, attempts)
    lines = Index(folder, store.file, is_own=True)
    with (folder / "index.jsonl").open("wb") as index:
        for plan in plan_trials([task.id for task in store.file.tasks], [NOOP], attempts):
            record = make_record(plan.trial_id, plan.task_id, plan.attempt)
            trial = folder / "trials" / plan.trial_id
            trial.mkdir()
            (trial / "record.json").write_bytes(to_json(record))
            stamp = stamp_of(f"{trial}/record.json")
            assert stamp is not None
            index.write(lines.line(entry_of(record, "noop"), stamp))


def measure_planning(scratch: Path) -> None:
    make_corpus(scratch / "tasks")
    prepare_job(JobSpec(name="warm", tasks=(str(scratch / "tasks/group-00"),), agents=(NOOP,)), scratch / "warm")
    start = cpu_sec()
    job = prepare_job(JobSpec(name="bench", tasks=(str(scratch / "tasks"),), agents=(NOOP,)), scratch / "planned")
    show(f"plan {TASK_COUNT:,} tasks", cpu_sec() - start, 1.5)
    assert len(job.trials) == TASK_COUNT


def measure_resuming(folder: Path, tasks: int, attempts: int, promised: float) -> None:
    make_finished(folder, tasks, attempts)
    start = cpu_sec()
    job = prepare_resume(folder)
    show(f"resume a finished job of {tasks * attempts:,} trials", cpu_sec() - start, promised)
    assert not job.trials
    assert len(job.earlier) == tasks * attempts


class InstantTrials:
    """An engine whose trials are over at once."""

    @asynccontextmanager
    async def open(self, job: PreparedJob, _observe: Observer) -> AsyncIterator[LocalPlaces]:
        yield LocalPlaces(self._run, job.store.file.spec.run.concurrent or 1)

    async def _run(self, spec: TrialSpec, _folder: Path, _observe: Observer) -> TrialRecord:
        await asyncio.sleep(0)
        return make_record(spec.trial_id, spec.task.id, spec.attempt)


def measure_storing(folder: Path, task: Path, count: int, promised: float | None) -> None:
    start = cpu_sec()
    store = store_empty_trials(folder, task, count)
    show(f"run and store each of {count:,} empty trials", (cpu_sec() - start) / count * 1000, promised, "ms")
    assert len(store.finished()) == count


def store_empty_trials(folder: Path, task: Path, count: int) -> JobStore:
    store = make_store(folder, 1, count)
    loaded = load_task(task).model_copy(update={"id": "task-00000"})
    job = PreparedJob(store, plan_trials(["task-00000"], [NOOP], count), {"task-00000": loaded})
    with store.lock():
        asyncio.run(carry_out(job, InstantTrials()))
    return store


def main() -> None:
    memory = "--here" not in sys.argv and Path("/dev/shm").is_dir()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if memory else None) as name:
        scratch = Path(name)
        measure_planning(scratch)
        measure_resuming(scratch / "small", TASK_COUNT, 1, 0.5)
        measure_resuming(scratch / "large", 10_000, 10, 2.0)
        for count in (1_000, 20_000):
            measure_storing(
                scratch / f"storing-{count}", scratch / "tasks/group-00/task-00000", count, 0.35 if memory else None
            )


if __name__ == "__main__":
    main()
