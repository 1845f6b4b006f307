"""One trial, run until it has a result or a failure that will not go away.

Whether a failed try is repeated, when and beside which others is decided here; runs, rollouts and regrades share it.
Where a try runs is `places.py`, where it is kept `keeping.py`.
"""

import asyncio
import errno
import logging
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from seatrial.errors import (
    HostBusyError,
    HostExhaustedError,
    NodeLostError,
    NodeUnreachableError,
    StoreError,
    TrialError,
)
from seatrial.jobs.keeping import HostCapacity, Keeper
from seatrial.jobs.places import Places
from seatrial.jobs.plan import TrialPlan
from seatrial.model.job import JobFile
from seatrial.model.loaded_task import Task
from seatrial.model.record import Failure, TrialRecord
from seatrial.sandbox.host.watch import Company
from seatrial.store.files import store_error
from seatrial.trial.events import Event, Observer, TrialFinished, TrialRetried, TrialStarted
from seatrial.trial.log import failed_record
from seatrial.trial.spec import TrialSpec

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_log = logging.getLogger(__name__)


async def run_with_retries(
    spec: TrialSpec,
    places: Places,
    keeper: Keeper,
    host: HostCapacity,
    observe: Observer,
    retries: int,
    earlier: int = 0,
    start: Callable[[], bool] = lambda: True,
) -> TrialRecord | None:
    """Run a trial until it has a result, or a failure that will not go away. Every try is kept, the last one counts.

    There were `earlier` tries before. None when `start` returns False, once there is room for the first try.
    """
    failed_on: frozenset[str] = frozenset()
    for tries in count(1):
        number = earlier + tries
        async with places.place(spec, failed_on) as place:
            if tries == 1 and not start():
                return None
            await host.wait()
            observe(TrialStarted(spec.trial_id, spec.task.id, spec.agent.title, number, place.node))
            async with keeper.open(spec.trial_id) as opened:
                try:
                    record = await place.run(spec, opened.folder, observe)
                except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - see _failed
                    record = _failed(spec, error, opened.folder)
                _let_cancellation_through()
                record = _stamped(record, number, place.node)
                again = record.failure is not None and should_retry(record.failure, tries, retries)
                await opened.keep(record, counts=not again)
        if record.failure is None or not again:
            observe(TrialFinished(record))
            return record
        failed_on |= {place.node} if place.node else frozenset()
        spec = replace(spec, company=company_for(record.failure, tries, retries))
        observe(TrialRetried(spec.trial_id, number, record.failure))
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


def _stamped(record: TrialRecord, number: int, node: str | None) -> TrialRecord:
    """A record with how often its trial was tried, and where."""
    changes = {"tries": number if number > 1 else None, "node": node}
    known = {name: value for name, value in changes.items() if value is not None}
    return record.model_copy(update=known) if known else record


def _failed(spec: TrialSpec, error: BaseException, folder: Path) -> TrialRecord:
    """The record of a trial that raised something. Raises what concerns the whole run; other trials go on."""
    _let_cancellation_through()
    if isinstance(error, StoreError):
        raise error
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        path = Path(error.filename) if isinstance(error.filename, str) else folder
        raise store_error(path, error) from error  # the others would all fail the same way
    if not isinstance(error, TrialError):
        _log.exception("trial %s ended with an error that is not its own", spec.trial_id)
    return failed_record(spec, error)


def _let_cancellation_through() -> None:
    """Raise CancelledError if we were cancelled, and not something that the trial waited for.

    A trial that fails while it is torn down says so; that must not make the run go on.
    """
    task = asyncio.current_task()
    if task and task.cancelling():
        raise asyncio.CancelledError


def shielded(observe: Observer) -> Observer:
    """An observer whose errors are logged and have no other effect."""

    def observe_safely(event: Event) -> None:
        try:
            observe(event)
        except Exception:  # noqa: BLE001 - it only watches
            _log.exception("an observer failed on %s", type(event).__name__)

    return observe_safely


# Whether a failed try is repeated, when, and beside whom.

_FIRST_WAIT_SEC = 1.0
_LONGEST_WAIT_SEC = 30.0
_MOST_LOST = 10
_BY_NEIGHBOURS = (HostExhaustedError.__name__, HostBusyError.__name__)
_LOST = (NodeLostError.__name__, NodeUnreachableError.__name__)


def should_retry(failure: Failure, tries: int, retries: int) -> bool:
    """Whether to start again after `tries` tries, of which `retries` may be repetitions. Cancelled is cancelled.

    What was lost with its node says nothing about a trial, so that has more repetitions; not without end, for a trial
    may be what ends nodes.
    """
    if failure.cause in _LOST:
        retries = max(retries, _MOST_LOST)
    return failure.kind == "infrastructure" and failure.retryable and tries <= retries


def company_for(failure: Failure, tries: int, retries: int) -> Company:
    """Beside whom a trial is tried again: the last time alone where this machine was out of something, or busy.

    If it does so again, there is no neighbour whose doing that could have been.
    """
    return "none" if failure.cause in _BY_NEIGHBOURS and tries >= retries else "others"


def backoff_sec(tries: int) -> float:
    """How long to wait after `tries` tries: not at all at first, most failures pass; then longer each time."""
    return 0.0 if tries <= 1 else min(_FIRST_WAIT_SEC * 2.0 ** min(tries - 2, 10), _LONGEST_WAIT_SEC)
