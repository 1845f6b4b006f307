"""Carrying out the trials of a job, side by side, each on its own, whatever engine says where they run.

A fixed number of workers take one trial after the other, so a job of any size needs the memory of those that run.
"""

import asyncio
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import monotonic

from seatrial.concurrency import side_by_side, unless
from seatrial.jobs.agent_watch import AgentWatch
from seatrial.jobs.attempt import Workbench, carry_out_trial, shielded
from seatrial.jobs.breaker import Breaker
from seatrial.jobs.engine import JobOutcome
from seatrial.jobs.places import Places
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.prepare import PreparedJob
from seatrial.jobs.queue import TrialQueue
from seatrial.jobs.resume import remaining
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.record import TrialRecord
from seatrial.model.task import Task
from seatrial.sandbox.host.watch import host_watch
from seatrial.trial.events import Observer, notices_once, unobserved


async def carry_out(
    job: PreparedJob, places: Places, observe: Observer = unobserved, *, workers: int, began: float | None = None
) -> JobOutcome:
    """Run the trials that have no record yet, in places of an engine, within the budgets of the job's spec.

    At most `workers` trials run or wait for a place at once. The time of the job began at `began`, else now.

    A trial that fails, in whatever way, is a record and no concern of the others. Raises StoreError when results
    cannot be stored, SandboxError when no sandbox starts any more and HostExhaustedError when this machine has no room
    for long; then, when cancelled, and when the time is over or an agent never really runs, what runs is torn down and
    unrecorded, and the job can be resumed.
    """
    store, options = job.store, job.store.file.spec.run
    finished = store.finished()
    queue = TrialQueue(remaining(job.trials, finished), options.max_trials)
    tell = notices_once(shielded(observe))
    with ExitStack() as stack:
        stack.enter_context(host_watch().guarding(store.path))
        room = Room(f"`seatrial resume {shlex.quote(str(store.path))}`", options.host_wait_sec, tell)
        bench = Workbench(store, places, queue, tell, stack.enter_context(Writer()), room)
        watch = AgentWatch(queue.trials, store.path, tell, resumed=bool(finished))
        crew = _Crew(bench, job.tasks, Breaker(), watch)
        stack.enter_context(_closing(queue, _left(options.max_wall_sec, began)))
        await unless(queue.closed, side_by_side(crew.work, min(workers, len(queue.trials))))
    done = len(store.finished())  # one may have been stored in the moment in which it was ended
    over = out_of_time(queue.started - (done - len(finished))) if queue.stopped == "wall budget" else None
    planned = len(finished.union(plan.trial_id for plan in job.trials))
    return JobOutcome(store, planned, done, queue.started, queue.stopped, over or crew.never_ran)


@dataclass(eq=False, slots=True)
class _Crew:
    """What workers share. Each takes one trial after the other, until there are none or the job is to stop.

    `never_ran` is why it is, if an agent never really runs.
    """

    bench: Workbench
    tasks: Mapping[str, Task]
    breaker: Breaker
    watch: AgentWatch
    never_ran: str | None = None

    async def work(self) -> None:
        while plan := self.bench.queue.take():
            record = await carry_out_trial(self.bench, plan, self.tasks[plan.task_id])
            if record is None:
                return
            self._note(plan, record)

    def _note(self, plan: TrialPlan, record: TrialRecord) -> None:
        self.breaker.note(record, self.bench.places.slots)
        reason = self.watch.note(plan, record)
        if reason and not self.bench.store.file.spec.run.keep_going:
            self.never_ran = reason
            self.bench.queue.close("agent warnings")


def _left(max_wall_sec: float | None, began: float | None) -> float | None:
    """How much is left of a job's time."""
    if max_wall_sec is None or began is None:
        return max_wall_sec
    return max(max_wall_sec - (monotonic() - began), 0.0)


@contextmanager
def _closing(queue: TrialQueue, seconds: float | None) -> Iterator[None]:
    """Close a queue when its time is over, unless the block ends before."""
    timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, queue.close, "wall budget")
    try:
        yield
    finally:
        if timer:
            timer.cancel()


def out_of_time(running: int) -> str:
    """Why a job has ended before its end, and what became of the trials that were running."""
    over = "the time of --max-wall is over"
    if not running:
        return over
    trials = "a trial that was running" if running == 1 else f"{running} trials that were running"
    return f"{over}: {trials} had to end, without a record; the resumed job starts with that"
