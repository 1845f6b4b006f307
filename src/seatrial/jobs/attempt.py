"""One trial of a job: run, stored, and started again when the machinery failed it."""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from seatrial.errors import StoreError, TrialError
from seatrial.jobs.keeping import Keeper, StoreKeeper
from seatrial.jobs.places import Places, TrialPlace
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.queue import TrialQueue
from seatrial.jobs.retry import backoff_sec, company_for, should_retry
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.job import JobFile
from seatrial.model.record import TrialRecord
from seatrial.model.task import Task
from seatrial.store.files import store_error
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, Observer, TrialFinished, TrialRetried, TrialStarted
from seatrial.trial.log import failed_record
from seatrial.trial.spec import TrialSpec

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TryOptions:
    """How trials are tried, by jobs and by environments: where, kept where, and how often again."""

    places: Places
    keeper: Keeper
    room: Room
    observe: Observer
    retries: int


@dataclass(eq=False, slots=True)
class Workbench:
    """What all trials of a run share."""

    store: JobStore
    places: Places
    queue: TrialQueue
    observe: Observer
    writer: Writer
    room: Room
    options: TryOptions = field(init=False)
    digests: dict[str, str] = field(init=False)
    earlier_tries: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        keeper = StoreKeeper(self.store, self.writer, self.room)
        self.options = TryOptions(self.places, keeper, self.room, self.observe, self.store.file.spec.run.retries)
        self.digests = {task.id: task.digest for task in self.store.file.tasks}
        self.earlier_tries = self.store.tries()


async def carry_out_trial(bench: Workbench, plan: TrialPlan, task: Task) -> TrialRecord | None:
    """Run a trial of a job until it is settled, and store it; see `settle`.

    None when the job was to stop before there was room for the trial.
    """
    spec = trial_spec(bench.store.file, plan, task, bench.digests[plan.task_id])
    return await settle(bench.options, spec, bench.earlier_tries.get(plan.trial_id, 0), bench.queue.start)


async def settle(
    options: TryOptions, spec: TrialSpec, earlier: int = 0, start: Callable[[], bool] = lambda: True
) -> TrialRecord | None:
    """Run a trial until it has a result, or a failure that will not go away. Every try is kept, the last one counts.

    There were `earlier` tries before. None when `start` says, once there is room, that the trial is not to start.
    """
    failed_on: frozenset[str] = frozenset()
    for tries in count(1):
        async with options.places.place(spec, failed_on) as place:
            if tries == 1 and not start():
                return None
            await options.room.wait()
            started = TrialStarted(spec.trial_id, spec.task.id, spec.agent.title, earlier + tries, place.node)
            options.observe(started)
            record = await _try(options, place, spec, earlier + tries, tries)
        if not _again(options, record, tries):
            options.observe(TrialFinished(record))
            return record
        assert record.failure is not None  # noqa: S101 - nothing else is tried again
        failed_on |= {place.node} if place.node else frozenset()
        spec = replace(spec, company=company_for(record.failure, tries, options.retries))
        options.observe(TrialRetried(spec.trial_id, earlier + tries, record.failure))
        if pause := backoff_sec(tries):
            await asyncio.sleep(pause)
    raise AssertionError("counting never ends")


def trial_spec(job: JobFile, plan: TrialPlan, task: Task, digest: str) -> TrialSpec:
    """What a planned trial of a job needs to know before it starts."""
    return TrialSpec(
        trial_id=plan.trial_id,
        task=task,
        task_digest=digest,
        agent=plan.agent,
        attempt=plan.attempt,
        job=job.spec.name,
        job_id=job.id,
        options=job.spec.trial,
    )


async def _try(options: TryOptions, place: TrialPlace, spec: TrialSpec, number: int, tries: int) -> TrialRecord:
    """One try, the one of that number in the life of the trial, and kept."""
    async with options.keeper.open(spec.trial_id) as opened:
        record = await _run(options, place, spec, opened.folder)
        changes = {"tries": number if number > 1 else None, "node": place.node}
        if told := {name: value for name, value in changes.items() if value is not None}:
            record = record.model_copy(update=told)
        await opened.keep(record, counts=not _again(options, record, tries))
    return record


async def _run(options: TryOptions, place: TrialPlace, spec: TrialSpec, folder: Path) -> TrialRecord:
    try:
        record = await place.run(spec, folder, options.observe)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - see below
        _let_through(error, folder)
        if not isinstance(error, TrialError):
            _log.exception("trial %s ended with an error that is not its own", spec.trial_id)
        return failed_record(spec, error)
    _let_cancellation_through()
    return record


def _let_through(error: BaseException, folder: Path) -> None:
    """Raise what concerns the whole run. Anything else that can go wrong with one trial is no concern of the others."""
    _let_cancellation_through()
    if isinstance(error, StoreError):
        raise error
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        path = Path(error.filename) if isinstance(error.filename, str) else folder
        raise store_error(path, error) from error  # the others would all fail the same way


def _let_cancellation_through() -> None:
    """Raise CancelledError if we were cancelled, and not something that the trial waited for.

    A trial that fails while it is torn down says so; that must not make the run go on.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


def _again(options: TryOptions, record: TrialRecord, tries: int) -> bool:
    return record.failure is not None and should_retry(record.failure, tries, options.retries)


def shielded(observe: Observer) -> Observer:
    """An observer whose errors are logged and have no other effect."""

    def observe_safely(event: Event) -> None:
        try:
            observe(event)
        except Exception:  # noqa: BLE001 - it only watches
            _log.exception("an observer failed on %s", type(event).__name__)

    return observe_safely
