"""Values and fakes that the tests of stores and jobs share."""

import datetime as dt
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from seatrial.jobs.admission import machine_memory_mb
from seatrial.jobs.carry_out import carry_out
from seatrial.jobs.engine import JobOutcome
from seatrial.jobs.places import LocalPlaces
from seatrial.jobs.prepare import PreparedJob
from seatrial.model.base import trial_id
from seatrial.model.evaluation import EvaluationResult, ValidityCheck
from seatrial.model.events import unobserved
from seatrial.model.job import AgentOptions, JobFile, JobSpec, LockedTask, RunOptions
from seatrial.model.record import AgentRef, Failure, PhaseTime, SandboxRef, TaskRef, TrialRecord
from seatrial.trial.events import Event, Observer, PhaseStarted
from seatrial.trial.spec import TrialSpec

DIGEST = "0123456789abcdef" * 4
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
NOOP = AgentOptions(name="noop")
RunTrial = Callable[[TrialSpec, Path, Observer], Coroutine[Any, Any, TrialRecord]]


def job_spec(**changes: Any) -> JobSpec:
    return JobSpec(**{"name": "nightly", "tasks": ("/tasks",), "agents": (NOOP,), **changes})


def job_file(tasks: Sequence[str] = ("add", "sort"), **changes: Any) -> JobFile:
    locked = tuple(LockedTask(id=name, name=f"org/{name}", root=f"/tasks/{name}", digest=DIGEST) for name in tasks)
    return JobFile(seatrial_version="0.1", created_at=NOON, spec=job_spec(**changes), tasks=locked)


def evaluation(reward: float = 1.0) -> EvaluationResult:
    return EvaluationResult(
        reward=reward, validity=ValidityCheck(output_parseable=True, schema_valid=True, verifier_completed=True)
    )


def broken_machine(*, retryable: bool = True) -> Failure:
    return Failure(phase="setup", cause="SandboxError", message="no space left", retryable=retryable)


def record(task: str = "add", /, attempt: int = 1, *, agent: str = "noop", **changes: Any) -> TrialRecord:
    """The record of a trial that passed, unless it is given a failure."""
    values: dict[str, Any] = {
        "trial_id": trial_id(task, agent, attempt),
        "task": TaskRef(id=task, name=f"org/{task}", digest=DIGEST),
        "agent": AgentRef(name="noop"),
        "sandbox": SandboxRef(backend="null", image="host", network="none"),
        "attempt": attempt,
        "times": (PhaseTime(phase="agent", started_at=NOON, finished_at=NOON + dt.timedelta(seconds=2.5)),),
    }
    if "failure" not in changes:
        values["evaluation"] = evaluation()
    return TrialRecord(**{**values, **changes})


def record_for(spec: TrialSpec, **changes: Any) -> TrialRecord:
    """What running a trial gives back."""
    task = TaskRef(id=spec.task.id, name=spec.task.name, digest=spec.task_digest)
    told = {"trial_id": spec.trial_id, "job": spec.job, "job_id": spec.job_id, "task": task}
    return record(spec.task.id, spec.attempt, **{**told, **changes})


class FakeTrials:
    """Runs trials in memory: `act` says what a trial comes to; by default it passes. Keeps the ids it was given."""

    def __init__(self, act: Callable[[TrialSpec, int], TrialRecord] | None = None) -> None:
        self.ran: list[str] = []
        self._act = act or (lambda spec, _: record_for(spec))

    async def __call__(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        self.ran.append(spec.trial_id)
        observe(PhaseStarted(spec.trial_id, "agent"))
        (folder / "agent").mkdir()
        (folder / "agent" / "stdout.txt").write_text(f"try {self.ran.count(spec.trial_id)}\n")
        return self._act(spec, self.ran.count(spec.trial_id))


class FakeEngine:
    """This machine's room for trials that come to what a function says."""

    def __init__(self, run: RunTrial, slots: int) -> None:
        self._run = run
        self._slots = slots

    @asynccontextmanager
    async def open(self, job: PreparedJob, observe: Observer) -> AsyncIterator[LocalPlaces]:
        yield LocalPlaces(self._run, self._slots, machine_memory_mb())


async def carry_out_here(job: PreparedJob, run: RunTrial, observe: Observer = unobserved) -> JobOutcome:
    """Carry out a job on this machine, with trials that come to what a function says."""
    return await carry_out(job, FakeEngine(run, job.store.file.spec.run.concurrent or 4), observe)


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def run_options(**changes: Any) -> RunOptions:
    return RunOptions(**changes)
