"""Rollouts that are trials, in the folder of a job: each a folder with its record, its files and its output."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.results import Output, make_output
from seatrial.env.rows import Row
from seatrial.env.saving import RunRow
from seatrial.env.state import PLACE, RECORD, RolloutPlace
from seatrial.env.stored import dump_output, load_output
from seatrial.errors import JobError, StoreError
from seatrial.jobs.api import job_name
from seatrial.jobs.resume import changed_tasks, compare_specs
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.job import JobFile, trial_id
from seatrial.sandbox.host.watch import USUAL_WAIT_SEC
from seatrial.store.draft import Commit, Draft
from seatrial.store.files import create_file, storing
from seatrial.store.job_file import JOB
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, Notice

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

ROLLOUT = "rollout.json"
_NO_RESULT = ("infrastructure_error", "cancelled")

_log = logging.getLogger(__name__)


class JobShelf:
    """A job's folder. The task of a row is the one it names; the rollouts of a task are numbered as they come."""

    def __init__(self, store: JobStore, writer: Writer, columns: tuple[str, ...]) -> None:
        self._store = store
        self._writer = writer
        self._columns = columns
        self._finished = store.finished()
        self._tries = store.tries()
        self._attempts: dict[str, int] = {}
        self._room = Room("resume=True", USUAL_WAIT_SEC, _log_notice)

    async def produce(self, row: Row, run: RunRow) -> Output:
        """The output of a trial that is in the folder already, or of a new one that is put there."""
        task = row["task"]
        attempt = self._attempts[task] = self._attempts.get(task, 0) + 1
        name = trial_id(task, self._store.file.spec.agents[0].title, attempt)
        if name in self._finished:
            return self._load(name)
        with ExitStack() as stack:
            draft = await self._room.use(lambda: self._draft(stack, name))
            place = RolloutPlace(name, draft.path, attempt, self._store.file.spec.name)
            state = await run({**row, PLACE: place})
            output = make_output(state, self._columns)
            record = state.get(RECORD)
            if record is not None:  # without one nothing was tried, so there is nothing to keep
                line = await asyncio.to_thread(dump_output, output)
                await self._room.use(lambda: _write(draft, line))
                if tries := self._tries.get(name):
                    record = record.model_copy(update={"tries": tries + 1})
                await self._room.use(lambda: self._writer.commit(Commit(draft, record)))
        return output

    async def _draft(self, stack: ExitStack, name: str) -> Draft:
        return stack.enter_context(self._store.draft(name))

    def _load(self, name: str) -> Output:
        path = self._store.trial_folder(name) / ROLLOUT
        with storing(path):
            line = path.read_bytes()
        try:
            return load_output(line)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{path}: is damaged ({error}); move its folder out of the job, then resume") from error


async def _write(draft: Draft, line: bytes) -> None:
    with storing(draft.path):
        create_file(f"{draft.path}/{ROLLOUT}", line)


def _log_notice(event: Event) -> None:
    if isinstance(event, Notice):
        _log.warning("%s", event.text)


def job_file_of(environment: "Environment", plan: "RunPlan") -> JobFile | None:
    """The job that a plan amounts to; None when its rollouts are no trials."""
    return environment.job_file(plan, job_name(plan.save_to)) if plan.save_to else None


@contextmanager
def open_job_shelf(folder: Path, job: JobFile, plan: "RunPlan") -> Iterator[JobShelf]:
    """The folder of a new job, or of one that is gone on with, for the length of a block. Raises JobError."""
    begun = plan.resume and (folder / JOB).exists()
    store = JobStore.open(folder) if begun else JobStore.create(folder, job)
    with store.lock(), Writer() as writer:
        if begun:
            _go_on(store, job)
        yield JobShelf(store, writer, plan.state_columns)


def _go_on(store: JobStore, job: JobFile) -> None:
    """Add a job's tasks and attempts to what is there, if that means the same; what has no result is put aside."""
    old = store.file
    attempts = max(old.spec.attempts, job.spec.attempts)
    spec = job.spec.model_copy(update={"attempts": attempts})
    now = {task.id: task.digest for task in job.tasks}
    if found := compare_specs(old.spec, spec) + changed_tasks(old.tasks, now):
        lines = "\n".join(f"  {line}" for line in found)
        raise JobError(f"{store.path}: is not the same evaluation any more:\n{lines}\nsave to another folder")
    known = {task.id for task in old.tasks}
    added = tuple(task for task in job.tasks if task.id not in known)
    store.update(old.model_copy(update={"spec": spec, "tasks": (*old.tasks, *added)}))
    for entry in store.entries():
        if entry.outcome in _NO_RESULT:
            store.set_aside(entry.trial_id)
