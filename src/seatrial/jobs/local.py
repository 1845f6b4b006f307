"""The local engine: carries out the trials of a job on this machine, side by side, each on its own.

A fixed number of workers take one trial after the other, so a job of any size needs the memory of those that run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seatrial.agents.api import make_agents
from seatrial.concurrency import side_by_side
from seatrial.jobs.admission import Admission, LimitedStarts, cores, machine_memory_mb
from seatrial.jobs.attempt import TrialRunner, Workbench, carry_out_trial, memory_of, shielded
from seatrial.jobs.breaker import Breaker
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.queue import Stop, TrialQueue
from seatrial.jobs.resume import remaining
from seatrial.jobs.room import Room
from seatrial.jobs.writer import Writer
from seatrial.model.task import Task
from seatrial.sandbox.api import SandboxBackend
from seatrial.sandbox.host.watch import host_watch
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Observer, notices_once, unobserved
from seatrial.trial.run import run_trial

_MANY_IN_A_ROW = 10
_LEAST_CONCURRENT = 4  # trials wait for models and clocks more than they compute


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """How far a job has come. `planned` and `finished` are of the whole job, `started` of this run."""

    store: JobStore
    planned: int
    finished: int
    started: int
    stopped: Stop


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
    for long; then, and when cancelled, what runs is torn down and unrecorded, and the job can be resumed.
    """
    finished = store.finished()
    left = remaining(trials, finished)
    options = store.file.spec.run
    concurrent = options.concurrent or max(_LEAST_CONCURRENT, cores())
    queue = TrialQueue(left, options.max_trials, options.max_wall_sec)
    admission = Admission(concurrent, machine_memory_mb())
    breaker = Breaker(max(_MANY_IN_A_ROW, 2 * concurrent))

    async def work(bench: Workbench) -> None:
        while plan := queue.take():
            async with admission.place(memory_of(tasks[plan.task_id], store.file.spec.trial.isolation)):
                if not queue.start():
                    return
                record = await carry_out_trial(bench, plan, tasks[plan.task_id])
                queue.done += 1
                breaker.note(record)

    with Writer() as writer, host_watch().guarding(store.path):
        limited = LimitedStarts(backend, options.starting or 2 * cores())
        agents = make_agents(store.file.spec.agents)
        tell = notices_once(shielded(observe))
        room = Room(f"`seatrial resume {store.path}`", options.host_wait_sec, tell)
        bench = Workbench(store, limited, tell, run, writer, agents, room)
        await side_by_side(lambda: work(bench), min(concurrent, len(left)))
    planned = len(finished.union(plan.trial_id for plan in trials))
    return JobOutcome(store, planned, len(finished) + queue.done, queue.started, queue.stopped)
