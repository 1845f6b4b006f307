"""Rollouts that are trials, in the folder of a job: each a folder with its record, its files and its output."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.results import Output, make_output
from seatrial.env.rollout import ROLLOUT, Rollout, RolloutPlace
from seatrial.env.rows import Row
from seatrial.env.saving import RunRow
from seatrial.env.state import rollout_of
from seatrial.env.stored import dump_output, load_output
from seatrial.errors import JobError
from seatrial.jobs.api import job_name
from seatrial.jobs.resume import changed_tasks, compare_specs
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.job import JobFile, trial_id
from seatrial.sandbox.host.watch import USUAL_WAIT_SEC
from seatrial.store.draft import Commit, Draft
from seatrial.store.files import create_file, read_plain, storing
from seatrial.store.job_file import JOB
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Event, Notice

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

ROLLOUT_FILE = "rollout.json"
_MAX_ROLLOUT_BYTES = 2**31
_NO_RESULT = ("infrastructure_error", "cancelled")
_KEPT = "; what is there is kept in damaged/, and the rollout is made again"

_log = logging.getLogger(__name__)


class TrialOutputs:
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
        if name in self._finished and (kept := self._load(name)) is not None:
            return kept
        with ExitStack() as stack:
            draft = await self._room.use(lambda: self._draft(stack, name))
            file = self._store.file
            place = RolloutPlace(name, draft.path, attempt, file.spec.name, file.id)
            state = await run({**row, ROLLOUT: Rollout(place)})
            output = make_output(state, self._columns)
            record = rollout_of(state).record
            if record is not None:  # without one nothing was tried, so there is nothing to keep
                line = await asyncio.to_thread(dump_output, output)
                await self._room.use(lambda: _write(draft, line))
                if tries := self._tries.get(name):
                    record = record.model_copy(update={"tries": tries + 1})
                await self._room.use(lambda: self._writer.commit(Commit(draft, record)))
        return output

    async def _draft(self, stack: ExitStack, name: str) -> Draft:
        return stack.enter_context(self._store.draft(name))

    def _load(self, name: str) -> Output | None:
        """The output that is kept of a trial; None for one that is damaged, which is put aside."""
        path = self._store.path / "trials" / name / ROLLOUT_FILE
        try:
            return load_output(read_plain(path, _MAX_ROLLOUT_BYTES))
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s: cannot be read (%s); it is kept in damaged/, and the rollout is made again", path, error)
            self._store.set_uncounted_aside([name])
            return None


async def _write(draft: Draft, line: bytes) -> None:
    with storing(draft.path):
        create_file(f"{draft.path}/{ROLLOUT_FILE}", line)


def _log_notice(event: Event) -> None:
    if isinstance(event, Notice):
        _log.warning("%s", event.text)


def job_file_of(environment: "Environment", plan: "RunPlan") -> JobFile | None:
    """The job that a plan amounts to; None when its rollouts are no trials."""
    return environment.job_file(plan, job_name(plan.save_to)) if plan.save_to else None


@contextmanager
def open_trial_outputs(folder: Path, job: JobFile, plan: "RunPlan") -> Iterator[TrialOutputs]:
    """The folder of a new job, or of one that is gone on with, for the length of a block. Raises JobError."""
    begun = plan.resume and (folder / JOB).exists()
    store = JobStore.open(folder) if begun else JobStore.create(folder, job)
    with store.lock(), Writer() as writer:
        if begun:
            _go_on(store, job)
        yield TrialOutputs(store, writer, plan.state_columns)


def _go_on(store: JobStore, job: JobFile) -> None:
    """Add a job's tasks and attempts to what is there, if that means the same; what has no result is put aside."""
    old = store.file
    if old.driver != "environment":
        raise JobError(f"{store.path}: holds a job of `seatrial run`, expected rollouts; save to another folder")
    attempts = max(old.spec.attempts, job.spec.attempts)
    spec = job.spec.model_copy(update={"attempts": attempts})
    now = {task.id: task.digest for task in job.tasks}
    if found := compare_specs(old.spec, spec) + changed_tasks(old.tasks, now):
        lines = "\n".join(f"  {line}" for line in found)
        raise JobError(f"{store.path}: is not the same evaluation any more:\n{lines}\nsave to another folder")
    known = {task.id for task in old.tasks}
    added = tuple(task for task in job.tasks if task.id not in known)
    store.update(old.model_copy(update={"spec": spec, "tasks": (*old.tasks, *added)}))
    census = store.census()
    for trial in census.uncounted:
        _log.warning("%s does not count: %s%s", trial.trial_id, trial.reason, _KEPT if trial.planned else "")
    store.set_uncounted_aside([trial.trial_id for trial in census.uncounted if trial.planned])
    for entry in census.entries:
        if entry.outcome in _NO_RESULT:
            store.set_aside(entry.trial_id)
