"""The local engine: carries out the trials of a job on this machine, side by side, each on its own.

A fixed number of workers take one trial after the other, so a job of any size needs the memory of those that run.
"""

import asyncio
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from seatrial.agents.api import make_agents
from seatrial.concurrency import side_by_side, unless
from seatrial.descriptors import REMEDY, affordable_trials, limit
from seatrial.jobs.admission import Admission, LimitedStarts, cores, machine_memory_mb
from seatrial.jobs.agent_watch import AgentWatch
from seatrial.jobs.attempt import TrialRunner, Workbench, carry_out_trial, memory_of, shielded
from seatrial.jobs.breaker import Breaker
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.queue import Stop, TrialQueue
from seatrial.jobs.resume import remaining
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.record import TrialRecord
from seatrial.model.task import Task
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.host.watch import host_watch
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Notice, Observer, notices_once, unobserved
from seatrial.trial.run import run_trial

_MANY_IN_A_ROW = 10
_LEAST_CONCURRENT = 4  # trials wait for models and clocks more than they compute


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How far a job has come. `planned` and `finished` are of the whole job, `started` of this run.

    `reason` says more about a run that was ended while trials were running, and what to do.
    """

    store: JobStore
    planned: int
    finished: int
    started: int
    stopped: Stop
    reason: str | None = None


async def carry_out(
    store: JobStore,
    trials: Sequence[TrialPlan],
    tasks: Mapping[str, Task],
    backend: SandboxBackend,
    observe: Observer = unobserved,
    run: TrialRunner = run_trial,
) -> JobOutcome:
    """Run the trials that have no record yet, on an open backend, within the budgets of the job's spec.

    A trial that fails, in whatever way, is a record and no concern of the others. Raises StoreError when results
    cannot be stored, SandboxError when no sandbox starts any more and HostExhaustedError when this machine has no room
    for long; then, when cancelled, and when the time is over or an agent never really runs, what runs is torn down and
    unrecorded, and the job can be resumed.
    """
    finished = store.finished()
    options = store.file.spec.run
    queue = TrialQueue(remaining(trials, finished), options.max_trials)
    concurrent = _affordable(options.concurrent or max(_LEAST_CONCURRENT, cores()), observe)
    tell = notices_once(shielded(observe))
    with ExitStack() as stack:
        stack.enter_context(host_watch().guarding(store.path))
        bench = Workbench(
            store,
            LimitedStarts(backend, options.starting or 2 * cores()),
            tell,
            run,
            stack.enter_context(Writer()),
            make_agents(store.file.spec.agents),
            Room(f"`seatrial resume {shlex.quote(str(store.path))}`", options.host_wait_sec, tell),
        )
        workers = _Workers(
            bench,
            tasks,
            queue,
            Admission(concurrent, machine_memory_mb()),
            Breaker(max(_MANY_IN_A_ROW, 2 * concurrent)),
            AgentWatch(queue.trials, store.path, tell, resumed=bool(finished)),
        )
        stack.enter_context(_closing(queue, options.max_wall_sec))
        await unless(queue.closed, side_by_side(workers.work, min(concurrent, len(queue.trials))))
    done = len(store.finished())  # one may have been stored in the moment in which it was ended
    over = out_of_time(queue.started - (done - len(finished))) if queue.stopped == "wall budget" else None
    planned = len(finished.union(plan.trial_id for plan in trials))
    return JobOutcome(store, planned, done, queue.started, queue.stopped, over or workers.never_ran)


@dataclass(eq=False, slots=True)
class _Workers:
    """What workers share. Each takes one trial after the other, until there are none or the job is to stop.

    `never_ran` is why it is, if an agent never really runs.
    """

    bench: Workbench
    tasks: Mapping[str, Task]
    queue: TrialQueue
    admission: Admission
    breaker: Breaker
    watch: AgentWatch
    never_ran: str | None = None

    async def work(self) -> None:
        spec = self.bench.store.file.spec
        while plan := self.queue.take():
            task = self.tasks[plan.task_id]
            async with self.admission.place(memory_of(task, spec.trial)):
                if not self.queue.start():
                    return
                self._note(plan, await carry_out_trial(self.bench, plan, task))

    def _note(self, plan: TrialPlan, record: TrialRecord) -> None:
        self.breaker.note(record)
        reason = self.watch.note(plan, record)
        if reason and not self.bench.store.file.spec.run.keep_going:
            self.never_ran = reason
            self.queue.close("agent warnings")


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


def _affordable(concurrent: int, observe: Observer) -> int:
    """How many trials to run at once: as many as asked for, unless this process may not open enough files for them."""
    affordable = affordable_trials(concurrent)
    if affordable < concurrent:
        shielded(observe)(
            Notice(
                f"{affordable} of {concurrent} trials run at once: this process may have no more than {limit()} files "
                f"open; to run more, {REMEDY}"
            )
        )
    return affordable
