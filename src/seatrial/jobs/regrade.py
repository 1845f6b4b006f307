"""Carrying out a regrade: every chosen trial judged again on this machine, each a revision of its own.

It is to a stored job what a run is to a new one: side by side, tried again where the machinery fails, stored whole or
not at all, and gone on with by the same command. A trial that cannot be judged again keeps the verdict that it has.
"""

import shlex
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from seatrial.concurrency import side_by_side
from seatrial.errors import JobError, StoreError, TrialError, UsageError
from seatrial.jobs.admission import Admission, cores, machine_memory_mb
from seatrial.jobs.attempt import TryOptions, settle, shielded, trial_spec
from seatrial.jobs.breaker import Breaker
from seatrial.jobs.interrupts import one_interrupt
from seatrial.jobs.keeping import OpenTry
from seatrial.jobs.local import LEAST_CONCURRENT, affordable
from seatrial.jobs.machinery import open_machinery
from seatrial.jobs.places import TrialPlace, memory_of
from seatrial.jobs.regrade_plan import PreparedRegrade
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import host_watch
from seatrial.sandbox.scratch import sweep_scratch
from seatrial.store.draft import Commit, Draft
from seatrial.store.index import TrialEntry
from seatrial.store.job_store import JobStore
from seatrial.store.open_regrade import begin_regrade, end_regrade
from seatrial.store.revisions import revision_name
from seatrial.trial.events import Event, Notice, Observer, TrialFinished, TrialPassedOver, notices_once, unobserved
from seatrial.trial.kept import KeptTrial
from seatrial.trial.log import failed_record
from seatrial.trial.machinery import Machinery
from seatrial.trial.regrade import RegradeSpec, regrade_trial
from seatrial.trial.spec import TrialSpec


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
    run = job.store.file.spec.run
    say = f"`{shlex.join(('seatrial', 'regrade', str(job.store.path)))}`"
    opened = open_machinery(job.options.backend, job.options, say=lambda line: tell(Notice(line)))
    async with opened as machinery:
        slots = affordable(job.asked.concurrent or run.concurrent or max(LEAST_CONCURRENT, cores()), tell)
        with ExitStack() as stack:
            stack.enter_context(host_watch().guarding(job.store.path))
            room = Room(say, run.host_wait_sec, tell)
            bench = RegradeBench(job, machinery, stack.enter_context(Writer()), room, slots)
            crew = _RegradeCrew(
                job, bench, TryOptions(bench, bench, room, _without_failures(tell), run.retries), tell, say
            )
            await side_by_side(crew.work, min(slots, len(job.trials)))
    return RegradeOutcome(job.store, job.regrade.id, len(job.earlier) + crew.regraded, tuple(crew.passed_over))


def _without_failures(tell: Observer) -> Observer:
    """An observer that is told of a trial whose judgement failed what that means: its record stays."""

    def observe(event: Event) -> None:
        if isinstance(event, TrialFinished) and event.record.failure:
            tell(TrialPassedOver(event.record.trial_id, _reason(event.record.trial_id, event.record.failure.message)))
        else:
            tell(event)

    return observe


def _reason(trial_id: str, message: str) -> str:
    """A message that does not begin with the trial, which is named beside it."""
    return message.removeprefix(f"{trial_id}: ")


class _RegradeCrew:
    """What workers share. Each judges one trial after the other."""

    def __init__(
        self, job: PreparedRegrade, bench: "RegradeBench", options: TryOptions, tell: Observer, go_on: str
    ) -> None:
        self._bench = bench
        self._options = options
        self._tell = tell
        self._waiting = iter(job.trials)
        self._breaker = Breaker(go_on)
        self.regraded = 0
        self.passed_over: list[PassedOver] = []

    async def work(self) -> None:
        for entry in self._waiting:
            try:
                spec = self._bench.begin(entry)
            except (JobError, StoreError) as error:
                reason = _reason(entry.trial_id, str(error))
                self.passed_over.append(PassedOver(entry.trial_id, reason))
                self._tell(TrialPassedOver(entry.trial_id, reason))
                continue
            record = await settle(self._options, spec)
            assert record is not None  # noqa: S101 - nothing keeps it from starting
            self._note(record)

    def _note(self, record: TrialRecord) -> None:
        self._bench.end(record.trial_id)
        if failure := record.failure:
            failed = record.trial_id not in self._bench.impossible
            self.passed_over.append(PassedOver(record.trial_id, _reason(record.trial_id, failure.message), failed))
        else:
            self.regraded += 1
        self._breaker.note(record, self._bench.slots)


@dataclass(eq=False, slots=True)
class RegradeBench:
    """Where trials are judged again, as `settle` wants it: places on this machine, and a keeper of new revisions."""

    job: PreparedRegrade
    machinery: Machinery
    writer: Writer
    room: Room
    slots: int
    node: None = None
    impossible: set[str] = field(default_factory=set)
    """The trials that cannot be judged again, however often one tries."""
    _admission: Admission = field(init=False)
    _specs: dict[str, RegradeSpec] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._admission = Admission(self.slots, machine_memory_mb())

    def begin(self, entry: TrialEntry) -> TrialSpec:
        """Take a trial up. Raises StoreError or JobError for one whose record cannot be read."""
        job, store, task = self.job, self.job.store, self.job.tasks[entry.task_id]
        first, *later = store.revisions(entry.trial_id)
        if first.record.revision:
            raise StoreError(f"{entry.trial_id}: the record of the trial itself does not count, so what ran is unknown")
        newest = later[-1].record if later else first.record
        spec = trial_spec(store.file, job.plans[entry.trial_id], task.task, task.digest)
        repeats = job.asked.repeats or job.options.verify_repeats
        spec = replace(spec, options=job.options.model_copy(update={"verify_repeats": repeats}))
        self._specs[entry.trial_id] = RegradeSpec(
            id=job.regrade.id,
            trial=KeptTrial(first.record, first.folder),
            parent=revision_name(entry.trial_id, newest.revision),
            revision=store.next_revision(entry.trial_id),
            spec=spec,
            given=task.given,
            tests=str(job.asked.tests.absolute()) if job.asked.tests else None,
            options=job.asked.changes,
        )
        return spec

    def end(self, trial_id: str) -> None:
        """Put a trial away."""
        del self._specs[trial_id]

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[TrialPlace]:
        """Room on this machine."""
        async with self._admission.place(memory_of(spec.task, spec.options)):
            yield self

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Judge a trial again. What keeps that from being done is a failed record, which is never stored."""
        regrade = self._specs[spec.trial_id]
        try:
            return await regrade_trial(replace(regrade, spec=spec), self.machinery, folder, observe)
        except UsageError as error:
            self.impossible.add(spec.trial_id)
            return failed_record(spec, error)
        except TrialError as error:
            return failed_record(spec, error)

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        """A draft of the next revision. Raises StoreError."""
        regrade = self._specs[trial_id]
        with ExitStack() as stack:
            draft = await self.room.use(lambda: self._draft(stack, trial_id, regrade.revision))
            yield _OpenRevision(self, draft, regrade)

    async def _draft(self, stack: ExitStack, trial_id: str, revision: int) -> Draft:
        return stack.enter_context(self.job.store.draft(trial_id, revision))


@dataclass(frozen=True, slots=True)
class _OpenRevision:
    """One try of a revision. Only one that was judged is kept."""

    bench: RegradeBench
    draft: Draft
    regrade: RegradeSpec

    @property
    def folder(self) -> Path:
        return self.draft.path

    async def keep(self, record: TrialRecord, *, counts: bool) -> None:
        if record.failure is not None:
            return
        # How often this was tried is no matter of the trial's own tries.
        revision = record.model_copy(update={"tries": self.regrade.trial.record.tries})
        await self.bench.room.use(lambda: self.bench.writer.commit(Commit(self.draft, revision)))
