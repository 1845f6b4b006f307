"""Carrying out a regrade: every chosen trial judged again on this machine, each a revision of its own.

It is to a stored job what a run is to a new one: side by side, tried again where the machinery fails, stored whole or
not at all, and gone on with by the same command. A trial that cannot be judged again keeps the verdict that it has.
"""

import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from seatrial.concurrency import run_all
from seatrial.errors import JobError, StoreError, TrialError, UsageError
from seatrial.jobs.admission import usual_slots
from seatrial.jobs.api import one_interrupt
from seatrial.jobs.attempt import run_with_retries, shielded, trial_spec
from seatrial.jobs.carry_out import Breaker
from seatrial.jobs.keeping import HostCapacity, OpenTry, StoreKeeper, Writer
from seatrial.jobs.local import affordable
from seatrial.jobs.machinery import open_machinery
from seatrial.jobs.places import LocalPlaces
from seatrial.jobs.regrade_plan import PreparedRegrade
from seatrial.model.events import unobserved
from seatrial.model.job import ModelOptions
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import host_watch
from seatrial.sandbox.runs import sweep_scratch
from seatrial.store.drafts import revision_name
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore, begin_regrade, end_regrade
from seatrial.trial.events import Event, Observer, TrialFinished, TrialPassedOver, notices_once
from seatrial.trial.log import failed_record
from seatrial.trial.regrade import RegradeSpec, regrade_trial
from seatrial.trial.repeats import KeptTrial
from seatrial.trial.spec import Machinery, TrialSpec


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A trial that was not judged again, and why. One that the machinery `failed` may be the next time."""

    trial_id: str
    reason: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class RegradeOutcome:
    """How far a regrade has come: how many trials it has judged again, also before it was gone on with."""

    store: JobStore
    id: str
    regraded: int
    passed_over: tuple[PassedOver, ...] = ()


async def run_regrade(job: PreparedRegrade, observe: Observer = unobserved) -> RegradeOutcome:
    """Judge what a regrade has not judged yet.

    Raises JobError when a run or another regrade is at the job, StoreError when results cannot be stored, SandboxError
    when no sandbox starts any more. Then, and when cancelled, what is stored stays, and the same regrade goes on.
    """
    if not job.trials:
        return RegradeOutcome(job.store, job.regrade.id, len(job.earlier))
    with job.store.lock(), one_interrupt():
        await sweep_scratch()
        begin_regrade(job.store.path, job.regrade)
        outcome = await _carry_out(job, notices_once(shielded(observe)))
        if not any(each.failed for each in outcome.passed_over):
            end_regrade(job.store.path)
        return outcome


async def _carry_out(job: PreparedRegrade, tell: Observer) -> RegradeOutcome:
    store, options = job.store, job.store.file.spec.run
    go_on = f"`{shlex.join(('seatrial', 'regrade', str(store.path)))}`"
    prices = ModelOptions(prices=store.file.spec.model.prices)
    opened = open_machinery(job.options.backend, job.options, prices, observe=tell)
    async with opened as machinery:
        slots = affordable(job.asked.concurrent or options.concurrent or usual_slots(), tell)
        with host_watch().guarding(store.path), Writer() as writer:
            host = HostCapacity(go_on, options.host_wait_sec, tell)
            run = RegradeRun(job, machinery, StoreKeeper(store, writer, host), tell)
            places, breaker = LocalPlaces(run.judge, slots), Breaker(go_on)

            async def work(entry: TrialEntry) -> TrialRecord | None:
                spec = run.begin(entry)
                if spec is None:
                    return None
                return await run_with_retries(spec, places, run, host, run.observe, options.retries)

            def done(_: TrialEntry, record: TrialRecord | None) -> None:
                if record is not None:
                    run.end(record)
                    breaker.note(record, slots)

            await run_all(job.trials, work, slots, done)
    return RegradeOutcome(store, job.regrade.id, len(job.earlier) + run.regraded, tuple(run.passed_over))


def _reason(trial_id: str, message: str) -> str:
    """A message that does not begin with the trial, which is named beside it."""
    return message.removeprefix(f"{trial_id}: ")


@dataclass(eq=False, slots=True)
class RegradeRun:
    """The trials that are being judged again, and what has become of the others."""

    job: PreparedRegrade
    machinery: Machinery
    keeper: StoreKeeper
    tell: Observer
    regraded: int = 0
    passed_over: list[PassedOver] = field(default_factory=list)
    _under_way: dict[str, RegradeSpec] = field(default_factory=dict)
    _impossible: set[str] = field(default_factory=set)
    """The trials that cannot be judged again, however often one tries."""

    def begin(self, entry: TrialEntry) -> TrialSpec | None:
        """Take a trial up; None for one whose record cannot be read, which is passed over."""
        try:
            regrade = self._spec(entry)
        except (JobError, StoreError) as error:
            reason = _reason(entry.trial_id, str(error))
            self.passed_over.append(PassedOver(entry.trial_id, reason))
            self.tell(TrialPassedOver(entry.trial_id, reason))
            return None
        self._under_way[entry.trial_id] = regrade
        return regrade.spec

    def end(self, record: TrialRecord) -> None:
        del self._under_way[record.trial_id]
        if failure := record.failure:
            failed = record.trial_id not in self._impossible
            self.passed_over.append(PassedOver(record.trial_id, _reason(record.trial_id, failure.message), failed))
        else:
            self.regraded += 1

    def observe(self, event: Event) -> None:
        """Of a trial whose judgement failed, tell what that means: its record stays."""
        if isinstance(event, TrialFinished) and event.record.failure:
            trial_id = event.record.trial_id
            event = TrialPassedOver(trial_id, _reason(trial_id, event.record.failure.message))
        self.tell(event)

    async def judge(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Judge a trial again. What keeps that from being done is a failed record, which is never stored."""
        regrade = replace(self._under_way[spec.trial_id], spec=spec)
        try:
            return await regrade_trial(regrade, self.machinery, folder, observe)
        except UsageError as error:
            self._impossible.add(spec.trial_id)
            return failed_record(spec, error)
        except TrialError as error:
            return failed_record(spec, error)

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        """A draft of the next revision, of which only one that was judged is kept. Raises StoreError."""
        regrade = self._under_way[trial_id]
        async with self.keeper.open(trial_id, regrade.revision) as opened:

            async def keep(record: TrialRecord, *, counts: bool) -> None:
                if record.failure is None:
                    # How often this was tried is no matter of the trial's own tries.
                    revision = record.model_copy(update={"tries": regrade.trial.record.tries})
                    await opened.keep(revision, counts=counts)

            yield OpenTry(opened.folder, keep)

    def _spec(self, entry: TrialEntry) -> RegradeSpec:
        """Raises StoreError or JobError for a trial whose record cannot be read."""
        job, store, task = self.job, self.job.store, self.job.tasks[entry.task_id]
        first, *later = store.revisions(entry.trial_id)
        if first.record.revision:
            raise StoreError(f"{entry.trial_id}: the record of the trial itself does not count, so what ran is unknown")
        newest = later[-1].record if later else first.record
        spec = trial_spec(store.file, job.plans[entry.trial_id], task.task, task.digest)
        repeats = job.asked.repeats or job.options.verify_repeats
        return RegradeSpec(
            id=job.regrade.id,
            trial=KeptTrial(first.record, first.folder),
            parent=revision_name(entry.trial_id, newest.revision),
            revision=store.next_revision(entry.trial_id),
            spec=replace(spec, options=job.options.model_copy(update={"verify_repeats": repeats})),
            given=task.given,
            tests=str(job.asked.tests.absolute()) if job.asked.tests else None,
            options=job.asked.changes,
        )
