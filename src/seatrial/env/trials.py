"""Rollouts that are trials: let in, tried again and kept by the same functions as the trials of a job.

A folder that they are kept in is that of a job: each rollout is a trial's folder there with its record, its files and
its output. `remote` has them rolled out on other machines.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.results import Output
from seatrial.env.rollout import RolloutPlace
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, failed_row, run_row
from seatrial.env.stored import dump_output, read_output, write_output
from seatrial.errors import SandboxError, TrialError, UsageError
from seatrial.jobs.attempt import run_with_retries, trial_spec
from seatrial.jobs.keeping import HostCapacity, Keeper, OpenTry, ScratchKeeper, StoreKeeper, Writer
from seatrial.jobs.places import LocalPlaces, Places
from seatrial.model.events import Notice
from seatrial.model.job import LockedTask
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import USUAL_WAIT_SEC, host_watch
from seatrial.tasks.load import labels_of
from seatrial.trial.events import Event, Observer, TrialRetried
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:  # all that a job needs, which only those who have a folder need
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan
    from seatrial.jobs.plan import TrialPlan
    from seatrial.jobs.prepare import PreparedJob

_DAMAGED = "%s: its output cannot be read (%s); what is there is kept in damaged/, and the rollout is made again"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rollouts:
    """Rollouts under way: their rows, and what has become of them, by the ids of their trials."""

    environment: "Environment"
    plan: RowPlan
    rows: dict[str, Row] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        self.outputs.pop(spec.trial_id, None)  # of the try before
        plan = replace(self.plan, place=RolloutPlace(spec, folder))
        result = await run_row(self.environment, self.rows[spec.trial_id], plan)
        assert result.record is not None  # noqa: S101 - it has a place
        self.outputs[spec.trial_id] = result.output
        return result.record


@dataclass(frozen=True, slots=True)
class TrialOutputs:
    """The outputs of rollouts that are trials; of those of a job, what is in its folder already is not made again."""

    rollouts: Rollouts
    places: Places
    keeper: Keeper
    host: HostCapacity
    retries: int
    job: "RolloutJob | None" = None

    async def produce(self, row: Row) -> Output:
        """The output of a row: the one that is kept, or that of the last try. Without room for long it is an error.

        A row that no trial can be made of is rolled out nevertheless, and says why itself.
        """
        rollouts, job, earlier = self.rollouts, self.job, 0
        if job is None:
            try:
                spec = rollouts.environment.trial_spec(row, rollouts.plan.model)
            except Exception:  # noqa: BLE001 - its rollout raises the same, and reports it
                return (await run_row(rollouts.environment, row, rollouts.plan)).output
        else:
            planned = job.next_of(row["task"])
            if (kept := job.load(planned.trial_id)) is not None:
                return kept
            spec, earlier = job.spec_of(planned), job.tries.get(planned.trial_id, 0)
        rollouts.rows[spec.trial_id] = row
        try:
            record = await run_with_retries(spec, self.places, self.keeper, self.host, log_event, self.retries, earlier)
            output = rollouts.outputs.get(spec.trial_id)
        except TrialError as error:  # no room here, or no machine left: other rollouts go on
            return failed_row(row, rollouts.plan, error)
        finally:
            del rollouts.rows[spec.trial_id]
            rollouts.outputs.pop(spec.trial_id, None)
        if output is None:  # a machine that is gone or a bug of ours, of which only the record tells
            failure = record.failure if record else None
            kind = SandboxError if failure and failure.retryable else TrialError
            return failed_row(row, rollouts.plan, kind(failure.message if failure else "the rollout has no output"))
        return output

    async def scored(self, outputs: Sequence[Output]) -> None:
        """Nothing: a trial is what it is, and its group is scored again when a job is resumed."""


class RolloutJob:
    """A job's folder. The task of a row is the one it names; the rollouts of a task are numbered as they come."""

    def __init__(self, job: "PreparedJob", plans: "Sequence[TrialPlan]") -> None:
        self.tries = job.store.tries()
        self._job = job
        self._finished = {entry.trial_id for entry in job.earlier}
        self._plans = {(plan.task_id, plan.attempt): plan for plan in plans}
        self._digests = {task.id: task.digest for task in job.store.file.tasks}
        self._attempts: Counter[str] = Counter()

    def next_of(self, task: str) -> "TrialPlan":
        self._attempts[task] += 1
        return self._plans[task, self._attempts[task]]

    def spec_of(self, plan: "TrialPlan") -> TrialSpec:
        return trial_spec(self._job.store.file, plan, self._job.tasks[plan.task_id], self._digests[plan.task_id])

    def load(self, trial_id: str) -> Output | None:
        """The output that is kept of a trial; None where there is none, or a damaged one, which is put aside."""
        if trial_id not in self._finished:
            return None
        folder = self._job.store.path / "trials" / trial_id
        try:
            return read_output(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning(_DAMAGED, folder, error)
            self._job.store.set_uncounted_aside([trial_id])
            return None


@dataclass(frozen=True, slots=True)
class OutputKeeper:
    """Keeps the output of a rollout beside the record of its trial."""

    records: StoreKeeper
    outputs: dict[str, Output]

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        """A draft of the trial. Raises StoreError."""
        async with self.records.open(trial_id) as opened:

            async def keep(record: TrialRecord, *, counts: bool) -> None:
                if (output := self.outputs.get(trial_id)) is not None:
                    line = await asyncio.to_thread(dump_output, output)

                    async def write() -> None:
                        write_output(opened.folder, line)

                    await self.records.host.write(write)
                await opened.keep(record, counts=counts)

            yield OpenTry(opened.folder, keep)


@asynccontextmanager
async def open_trials(environment: "Environment", plan: "RunPlan", row_plan: RowPlan) -> AsyncIterator[TrialOutputs]:
    """Rollouts of a plan that are trials, kept if it has a folder, for the length of a block.

    Raises UsageError, and JobError for a folder that they cannot be kept in.
    """
    rollouts = Rollouts(environment, row_plan)
    host = HostCapacity("resume=True" if plan.save_to else "another evaluation", USUAL_WAIT_SEC, log_event)
    if plan.save_to is None:
        async with _open_places(plan, rollouts) as places:
            yield TrialOutputs(rollouts, places, ScratchKeeper(), host, plan.retries)
        return
    from seatrial.jobs.api import job_name  # noqa: PLC0415 - only for those who have a folder
    from seatrial.jobs.plan import plan_rest  # noqa: PLC0415
    from seatrial.jobs.resume import prepare_rollouts  # noqa: PLC0415

    specs = _specs(environment, plan)
    locked = [_lock(each) for each in specs.values()]
    tasks = {name: each.task for name, each in specs.items()}
    spec = environment.job_spec(plan, job_name(plan.save_to))
    async with _open_places(plan, rollouts) as places:
        job = prepare_rollouts(plan.save_to, spec, tasks, locked, resume=plan.resume)
        for line in job.notices:
            _log.warning("%s", line)
        with job.store.lock(), host_watch().guarding(job.store.path), Writer() as writer:
            keeper = OutputKeeper(StoreKeeper(job.store, writer, host), rollouts.outputs)
            stored = RolloutJob(job, plan_rest(job.store.file))
            yield TrialOutputs(rollouts, places, keeper, host, plan.retries, stored)


@asynccontextmanager
async def _open_places(plan: "RunPlan", rollouts: Rollouts) -> AsyncIterator[Places]:
    """The room that rollouts of a plan have, for the length of a block. Raises UsageError."""
    if plan.engine == "local":
        yield LocalPlaces(rollouts.run, plan.workers)
        return
    from seatrial.env.remote import open_remote_places  # noqa: PLC0415 - only for those who have several machines

    async with open_remote_places(plan, rollouts, log_event) as places:
        yield places


def log_event(event: Event) -> None:
    """Log what those who evaluate should know of rollouts under way."""
    if isinstance(event, Notice):
        _log.warning("%s", event.text)
    elif isinstance(event, TrialRetried):
        failure = event.failure
        _log.warning("%s is tried again after try %s: %s", event.trial_id, event.tries, failure.message)


def _specs(environment: "Environment", plan: "RunPlan") -> dict[str, TrialSpec]:
    """What each task of the rows is. Raises UsageError for two tasks of one name."""
    specs: dict[str, TrialSpec] = {}
    for row in plan.rows:
        spec = environment.trial_spec(row, plan.model)
        known = specs.setdefault(row["task"], spec)
        if known.task.root != spec.task.root:
            raise UsageError(
                f"rows call two tasks {row['task']!r}, {known.task.root} and {spec.task.root}; "
                "give each of them a `task` of its own"
            )
    return specs


def _lock(spec: TrialSpec) -> LockedTask:
    task = spec.task
    return LockedTask(
        id=task.id, name=task.name, root=str(task.root), digest=spec.task_digest, labels=labels_of(task.config)
    )
