"""One trial of a job: run, stored, and started again when the machinery failed it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from seatrial.agents.api import Agent
from seatrial.errors import StoreError, TrialError
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.retry import backoff_sec, should_retry
from seatrial.jobs.writer import Writer
from seatrial.model.record import Failure, SandboxRef, TaskRef, TrialRecord
from seatrial.model.task import Task
from seatrial.sandbox.api import SandboxBackend
from seatrial.store.draft import Commit
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, Observer, TrialFinished, TrialRetried, TrialStarted
from seatrial.trial.spec import TrialSpec

TrialRunner = Callable[[TrialSpec, SandboxBackend, Path, Observer], Awaitable[TrialRecord]]
"""Runs one trial, leaving its files in the folder. What it raises is taken for a bug and recorded as a failure."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workbench:
    """What all trials of a run share."""

    store: JobStore
    backend: SandboxBackend
    observe: Observer
    run: TrialRunner
    writer: Writer
    agents: Mapping[str, Agent]
    digests: dict[str, str] = field(init=False)
    earlier_tries: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digests", {task.id: task.digest for task in self.store.file.tasks})
        object.__setattr__(self, "earlier_tries", self.store.tries())


async def carry_out_trial(bench: Workbench, plan: TrialPlan, task: Task) -> None:
    """Run a trial until it has a result, or a failure that will not go away. Every try is kept, the last one counts."""
    spec = TrialSpec(
        trial_id=plan.trial_id,
        task=task,
        task_digest=bench.digests[plan.task_id],
        agent=bench.agents[plan.agent.title],
        attempt=plan.attempt,
        job=bench.store.file.spec.name,
        options=bench.store.file.spec.trial,
    )
    earlier = bench.earlier_tries.get(plan.trial_id, 0)
    for tries in count(1):
        bench.observe(TrialStarted(plan.trial_id, plan.task_id, plan.agent.title, earlier + tries))
        record = await _try(bench, spec, tries, earlier)
        if not _again(bench, record, tries):
            bench.observe(TrialFinished(record))
            return
        assert record.failure is not None  # noqa: S101 - nothing else is tried again
        bench.observe(TrialRetried(plan.trial_id, earlier + tries, record.failure))
        if pause := backoff_sec(tries):
            await asyncio.sleep(pause)


async def _try(bench: Workbench, spec: TrialSpec, tries: int, earlier: int) -> TrialRecord:
    with bench.store.draft(spec.trial_id) as draft:
        record = await _run(bench, spec, draft.path)
        if earlier + tries > 1:
            record = record.model_copy(update={"tries": earlier + tries})
        await bench.writer.commit(Commit(draft, record, counts=not _again(bench, record, tries)))
    return record


async def _run(bench: Workbench, spec: TrialSpec, folder: Path) -> TrialRecord:
    try:
        return await bench.run(spec, bench.backend, folder, bench.observe)
    except StoreError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever is wrong with one trial is no concern of the others
        _log.exception("trial %s ended with an error that is not its own", spec.trial_id)
        return _failed(bench, spec, error)


def _failed(bench: Workbench, spec: TrialSpec, error: Exception) -> TrialRecord:
    options = bench.store.file.spec.trial
    return TrialRecord(
        trial_id=spec.trial_id,
        job=spec.job,
        task=TaskRef(id=spec.task.id, name=spec.task.name, digest=spec.task_digest, source=spec.task.config.source),
        agent=spec.agent.ref,
        sandbox=SandboxRef(backend=options.backend, image=options.image, network=options.network),
        attempt=spec.attempt,
        pass_threshold=options.pass_threshold,
        failure=Failure(
            phase="setup",
            cause=type(error).__name__,
            message=str(error) or "no message",
            retryable=isinstance(error, TrialError) and error.retryable,
        ),
    )


def _again(bench: Workbench, record: TrialRecord, tries: int) -> bool:
    return record.failure is not None and should_retry(record.failure, tries, bench.store.file.spec.run.retries)


def memory_of(task: Task) -> int | None:
    """How much memory a task declares for the larger of its sandboxes."""
    machines = (task.config.environment, task.config.verifier.environment)
    return max((machine.memory_mb or 0 for machine in machines if machine), default=0)


def shielded(observe: Observer) -> Observer:
    """An observer whose errors are logged and have no other effect."""

    def observe_safely(event: Event) -> None:
        try:
            observe(event)
        except Exception:  # noqa: BLE001 - it only watches
            _log.exception("an observer failed on %s", type(event).__name__)

    return observe_safely
