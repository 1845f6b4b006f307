"""One trial of a job: run, stored, and started again when the machinery failed it."""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from seatrial.agents.api import Agent
from seatrial.errors import StoreError, TrialError
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.retry import backoff_sec, company_for, should_retry
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.job import JobFile, TrialOptions
from seatrial.model.record import AgentRef, Failure, SandboxRef, TaskRef, TrialRecord
from seatrial.model.task import Task
from seatrial.sandbox.api import SandboxBackend
from seatrial.store.draft import Commit, Draft
from seatrial.store.files import store_error
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, Observer, TrialFinished, TrialRetried, TrialStarted
from seatrial.trial.spec import TrialSpec

TrialRunner = Callable[[TrialSpec, SandboxBackend, Path, Observer], Awaitable[TrialRecord]]
"""Runs one trial, leaving its files in the folder. What it raises is taken for a bug and recorded as a failure."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Workbench:
    """What all trials of a run share."""

    store: JobStore
    backend: SandboxBackend
    observe: Observer
    run: TrialRunner
    writer: Writer
    agents: Mapping[str, Agent]
    room: Room
    digests: dict[str, str] = field(init=False)
    earlier_tries: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.digests = {task.id: task.digest for task in self.store.file.tasks}
        self.earlier_tries = self.store.tries()


async def carry_out_trial(bench: Workbench, plan: TrialPlan, task: Task) -> TrialRecord:
    """Run a trial until it has a result, or a failure that will not go away. Every try is kept, the last one counts."""
    spec = trial_spec(bench.store.file, plan, task, bench.agents[plan.agent.title], bench.digests[plan.task_id])
    earlier = bench.earlier_tries.get(plan.trial_id, 0)
    for tries in count(1):
        await bench.room.wait()
        bench.observe(TrialStarted(plan.trial_id, plan.task_id, plan.agent.title, earlier + tries))
        record = await _try(bench, plan, spec, earlier + tries, tries)
        if not _again(bench, record, tries):
            bench.observe(TrialFinished(record))
            return record
        assert record.failure is not None  # noqa: S101 - nothing else is tried again
        spec = replace(spec, company=company_for(record.failure, tries, bench.store.file.spec.run.retries))
        bench.observe(TrialRetried(plan.trial_id, earlier + tries, record.failure))
        if pause := backoff_sec(tries):
            await asyncio.sleep(pause)
    raise AssertionError("counting never ends")


def trial_spec(job: JobFile, plan: TrialPlan, task: Task, agent: Agent, digest: str) -> TrialSpec:
    """What a planned trial of a job needs to know before it starts."""
    return TrialSpec(
        trial_id=plan.trial_id,
        task=task,
        task_digest=digest,
        agent=agent,
        attempt=plan.attempt,
        job=job.spec.name,
        job_id=job.id,
        options=job.spec.trial,
        agent_setup=plan.agent.setup,
        agent_files=plan.agent.files,
    )


async def _try(bench: Workbench, plan: TrialPlan, spec: TrialSpec, number: int, tries: int) -> TrialRecord:
    """One try, the one of that number in the life of the trial, and stored."""
    with ExitStack() as stack:
        draft = await bench.room.use(lambda: _opened(stack, bench, spec))
        record = await _run(bench, plan, spec, draft.path)
        if number > 1:
            record = record.model_copy(update={"tries": number})
        counts = not _again(bench, record, tries)
        await bench.room.use(lambda: bench.writer.commit(Commit(draft, record, counts)))
    return record


async def _opened(stack: ExitStack, bench: Workbench, spec: TrialSpec) -> Draft:
    return stack.enter_context(bench.store.draft(spec.trial_id))


async def _run(bench: Workbench, plan: TrialPlan, spec: TrialSpec, folder: Path) -> TrialRecord:
    try:
        record = await bench.run(spec, bench.backend, folder, bench.observe)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - see below
        _let_through(error, folder)
        _log.exception("trial %s ended with an error that is not its own", spec.trial_id)
        return _failed(bench, plan, spec, error)
    _let_cancellation_through()
    return record


def _let_through(error: BaseException, folder: Path) -> None:
    """Raise what concerns the whole run. Anything else that can go wrong with one trial is no concern of the others."""
    _let_cancellation_through()
    if isinstance(error, StoreError):
        raise error
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        raise store_error(folder, error) from error  # the others would all fail the same way


def _let_cancellation_through() -> None:
    """Raise CancelledError if we were cancelled, and not something that the trial waited for.

    A trial that fails while it is torn down says so; that must not make the run go on.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


def _failed(bench: Workbench, plan: TrialPlan, spec: TrialSpec, error: BaseException) -> TrialRecord:
    options = bench.store.file.spec.trial
    return TrialRecord(
        trial_id=spec.trial_id,
        job=spec.job,
        job_id=spec.job_id,
        task=TaskRef(id=spec.task.id, name=spec.task.name, digest=spec.task_digest, source=spec.task.config.source),
        agent=AgentRef(name=plan.agent.name, command=plan.agent.command, model=plan.agent.model),
        sandbox=SandboxRef(backend=options.backend, image=options.image, network=options.network),
        attempt=spec.attempt,
        pass_threshold=options.pass_threshold,
        failure=Failure(
            phase="setup",
            cause=type(error).__name__,
            # Names of files may come with bytes that no text can hold.
            message=str(error).encode("utf-8", "backslashreplace").decode() or "no message",
            retryable=isinstance(error, TrialError) and error.retryable,
        ),
    )


def _again(bench: Workbench, record: TrialRecord, tries: int) -> bool:
    return record.failure is not None and should_retry(record.failure, tries, bench.store.file.spec.run.retries)


def memory_of(task: Task, options: TrialOptions) -> int:
    """How much memory a trial of a task may take; with a separate verifier, both of its sandboxes."""
    environment, verifier = task.config.environment, task.config.verifier
    own = options.memory_mb or environment.memory_mb or 0
    if "separate" not in (options.isolation, verifier.environment_mode):
        return own
    return own + ((verifier.environment.memory_mb or 0) if verifier.environment else own)


def shielded(observe: Observer) -> Observer:
    """An observer whose errors are logged and have no other effect."""

    def observe_safely(event: Event) -> None:
        try:
            observe(event)
        except Exception:  # noqa: BLE001 - it only watches
            _log.exception("an observer failed on %s", type(event).__name__)

    return observe_safely
