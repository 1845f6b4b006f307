"""Rollouts that are trials, in the folder of a job: each a folder with its record, its files and its output."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.results import Output
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, RowResult
from seatrial.env.stored import dump_output, read_output, write_output
from seatrial.env.trial_rollouts import TrialRunner, make_room, open_places
from seatrial.errors import UsageError
from seatrial.jobs.api import job_name
from seatrial.jobs.attempt import TryOptions, trial_spec
from seatrial.jobs.continuing import plan_rest
from seatrial.jobs.keeping import OpenTry, StoreKeeper
from seatrial.jobs.prepare import PreparedJob
from seatrial.jobs.prepare_rollouts import prepare_rollouts
from seatrial.jobs.writer import Writer
from seatrial.model.job import LockedTask
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import host_watch
from seatrial.tasks.labels import labels_of
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

_DAMAGED = "%s: its output cannot be read (%s); what is there is kept in damaged/, and the rollout is made again"

_log = logging.getLogger(__name__)


class StoredTrials:
    """A job's folder. The task of a row is the one it names; the rollouts of a task are numbered as they come."""

    def __init__(self, job: PreparedJob, runner: TrialRunner) -> None:
        self._job = job
        self._runner = runner
        self._finished = {entry.trial_id for entry in job.earlier}
        self._tries = job.store.tries()
        self._plans = {(plan.task_id, plan.attempt): plan for plan in plan_rest(job.store.file)}
        self._digests = {task.id: task.digest for task in job.store.file.tasks}
        self._attempts: Counter[str] = Counter()

    async def produce(self, row: Row) -> Output:
        """The output of a trial that is in the folder already, or of a new one that is put there."""
        task = row["task"]
        self._attempts[task] += 1
        plan = self._plans[task, self._attempts[task]]
        if plan.trial_id in self._finished and (kept := self._load(plan.trial_id)) is not None:
            return kept
        spec = trial_spec(self._job.store.file, plan, self._job.tasks[task], self._digests[task])
        return await self._runner.run(row, spec, self._tries.get(plan.trial_id, 0))

    async def scored(self, outputs: Sequence[Output]) -> None:
        """Nothing: a trial is what it is, and its group is scored anew when a job is resumed."""

    def _load(self, name: str) -> Output | None:
        """The output that is kept of a trial; None for one that is damaged, which is put aside."""
        folder = self._job.store.path / "trials" / name
        try:
            return read_output(folder)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning(_DAMAGED, folder, error)
            self._job.store.set_uncounted_aside([name])
            return None


@dataclass(frozen=True, slots=True)
class _OutputKeeper:
    """Keeps the output of a rollout beside the record of its trial."""

    records: StoreKeeper
    results: Mapping[str, RowResult]

    @asynccontextmanager
    async def open(self, trial_id: str) -> AsyncIterator[OpenTry]:
        async with self.records.open(trial_id) as opened:
            yield _TryWithOutput(self, trial_id, opened)


@dataclass(frozen=True, slots=True)
class _TryWithOutput:
    keeper: _OutputKeeper
    trial_id: str
    opened: OpenTry

    @property
    def folder(self) -> Path:
        return self.opened.folder

    async def keep(self, record: TrialRecord, *, counts: bool) -> None:
        if result := self.keeper.results.get(self.trial_id):
            line = await asyncio.to_thread(dump_output, result.output)
            await self.keeper.records.room.use(lambda: self._write(line))
        await self.opened.keep(record, counts=counts)

    async def _write(self, line: bytes) -> None:
        write_output(self.folder, line)


@asynccontextmanager
async def open_stored_trials(
    environment: "Environment", plan: "RunPlan", row_plan: RowPlan, folder: Path
) -> AsyncIterator[StoredTrials]:
    """The folder of a new job, or of one that is gone on with, for the length of a block. Raises JobError."""
    specs = _specs(environment, plan)
    locked = [_lock(each) for each in specs.values()]
    tasks = {name: each.task for name, each in specs.items()}
    spec = environment.job_spec(plan, job_name(folder))
    room = make_room("resume=True")
    async with open_places(environment, plan, row_plan) as places:
        job = prepare_rollouts(folder, spec, tasks, locked, resume=plan.resume)
        for line in job.notices:
            _log.warning("%s", line)
        with job.store.lock(), host_watch().guarding(job.store.path), Writer() as writer:
            keeper = _OutputKeeper(StoreKeeper(job.store, writer, room), places.results)
            options = TryOptions(places, keeper, room, room.observe, plan.retries)
            yield StoredTrials(job, TrialRunner(row_plan, places, options))


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
