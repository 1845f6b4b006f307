"""Carrying out the trials of a job, side by side, each on its own, wherever its engine has places for them.

`carry_out` is the same for every engine: budgets, and what ends a run early because its machine is broken or its agent
never runs. The tries of one trial are in `attempt.py`. Only the trials that run are in memory, so a job may be of any
size.
"""

import asyncio
import shlex
from collections import defaultdict
from collections.abc import Collection, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from seatrial.concurrency import run_all
from seatrial.errors import HostExhaustedError, SandboxError
from seatrial.jobs.attempt import run_with_retries, shielded, trial_spec
from seatrial.jobs.engine import Engine, JobOutcome, Stop
from seatrial.jobs.keeping import HostCapacity, StoreKeeper, Writer
from seatrial.jobs.plan import TrialPlan, remaining
from seatrial.jobs.prepare import PreparedJob
from seatrial.model.events import Notice, unobserved
from seatrial.model.record import NEVER_RAN, TrialRecord
from seatrial.sandbox.host.watch import host_watch
from seatrial.trial.events import Observer, notices_once


async def carry_out(job: PreparedJob, engine: Engine, observe: Observer = unobserved) -> JobOutcome:
    """Run the trials that have no record yet, in places of an engine, within the budgets of the job's spec.

    A trial that fails, in whatever way, is a record and no concern of the others. Raises StoreError when results
    cannot be stored, SandboxError when no sandbox starts any more and HostExhaustedError when this machine has no room
    for long; then, when cancelled, and when the time is over or an agent never really runs, what runs is torn down and
    unrecorded, and the job can be resumed.
    """
    store, options, observe = job.store, job.store.file.spec.run, shielded(observe)
    finished, tell = store.finished(), notices_once(observe)
    run = JobRun(job, finished, tell)
    try:
        async with run.time, engine.open(job, observe) as places:
            with host_watch().guarding(store.path), Writer() as writer:
                host = HostCapacity(f"`seatrial resume {shlex.quote(str(store.path))}`", options.host_wait_sec, tell)
                keeper = StoreKeeper(store, writer, host)
                digests, tries = {task.id: task.digest for task in store.file.tasks}, store.tries()

                def work(plan: TrialPlan) -> Coroutine[Any, Any, TrialRecord | None]:
                    spec = trial_spec(store.file, plan, job.tasks[plan.task_id], digests[plan.task_id])
                    earlier = tries.get(plan.trial_id, 0)
                    return run_with_retries(spec, places, keeper, host, tell, options.retries, earlier, run.start)

                def done(plan: TrialPlan, record: TrialRecord | None) -> None:
                    if record is not None:
                        run.note(plan, record, places.slots)

                try:
                    await run_all(run.plans(), work, places.at_once, done)
                finally:
                    if not run.time.expired():
                        run.time.reschedule(None)  # to close the places takes the time that it takes
    except TimeoutError:
        if not run.time.expired():
            raise
    stored = len(store.finished())  # one may have been stored in the moment in which it was ended
    planned = len(finished.union(plan.trial_id for plan in job.trials))
    return JobOutcome(store, planned, stored, run.started, *run.end(stored - len(finished)))


# What ends a run before its trials do.


class JobRun:
    """How far a run of a job has come, and what may end it early. Its `time` is a budget, too."""

    def __init__(self, job: PreparedJob, finished: Collection[str], tell: Observer) -> None:
        options, left = job.store.file.spec.run, remaining(job.trials, finished)
        self.time = asyncio.timeout(options.max_wall_sec)
        self.started = 0
        self._trials = left[: options.max_trials]
        self._stopped: Stop = "complete" if len(self._trials) == len(left) else "trial budget"
        self._never_ran: str | None = None
        self._keep_going = options.keep_going
        self._breaker = Breaker()
        self._watch = AgentWatch(self._trials, job.store.path, tell, resumed=bool(finished))

    def plans(self) -> Iterator[TrialPlan]:
        """The trials to run, in order, until the run is to end."""
        for plan in self._trials:
            if self._never_ran:
                return
            yield plan

    def start(self) -> bool:
        """Whether a trial may start now, after it had to wait for a place."""
        self.started += not self._never_ran
        return not self._never_ran

    def note(self, plan: TrialPlan, record: TrialRecord, slots: int) -> None:
        """Take notice of a finished trial. Raises SandboxError or HostExhaustedError where the machine is broken."""
        self._breaker.note(record, slots)
        reason = self._watch.note(plan, record)
        if reason and not self._keep_going and not self._never_ran:
            self._never_ran = reason
            self.time.reschedule(asyncio.get_running_loop().time())

    def end(self, stored: int) -> tuple[Stop, str | None]:
        """Why no more trials were started, and more of that if trials were running; so many were stored."""
        if self._never_ran:
            return "agent warnings", self._never_ran
        if self.time.expired():
            return "wall budget", out_of_time(self.started - stored)
        return self._stopped, None


def out_of_time(running: int) -> str:
    """Why a job has ended before its end, and what became of the trials that were running."""
    over = "the time of --max-wall is over"
    if not running:
        return over
    trials = "a trial that was running" if running == 1 else f"{running} trials that were running"
    return f"{over}: {trials} had to end, without a record; the resumed job starts with that"


# A machine that is broken, before it turns every trial that is left into a failure.

_MANY_IN_A_ROW = 10


class Breaker:
    """Counts trials in a row for which no sandbox or no room could be had. A single other one clears the count.

    `go_on` is the command that goes on afterwards.
    """

    def __init__(self, go_on: str = "`seatrial resume --retry-failed`") -> None:
        self._in_a_row = 0
        self._go_on = go_on

    def note(self, record: TrialRecord, slots: int) -> None:
        """Take notice of a finished trial, of those that run `slots` at once.

        Raises SandboxError or HostExhaustedError when so many were in a row that it was not one bad moment for all.
        """
        failure = record.failure
        exhausted = failure is not None and failure.cause == HostExhaustedError.__name__
        if failure is None or not (exhausted or (failure.phase == "setup" and failure.cause == SandboxError.__name__)):
            self._in_a_row = 0
            return
        self._in_a_row += 1
        if self._in_a_row < max(_MANY_IN_A_ROW, 2 * slots):
            return
        if exhausted:
            raise HostExhaustedError(
                f"{self._in_a_row} trials in a row had no room on this machine, last: {failure.message}; make room, "
                f"then go on with {self._go_on}"
            )
        raise SandboxError(
            f"no sandbox could be started for {self._in_a_row} trials in a row, last: {failure.message}; see "
            f"`seatrial doctor`, then go on with {self._go_on}"
        )


# An agent that never really runs, before it turns every trial that is left into a zero. The first trials of each agent
# decide. One that really ran, however badly, clears the agent for the rest of the run.

_FIRST = 3
_ADVICE = {
    "agent_not_started": "try the command in the task's image; --agent-setup installs what it needs",
    "no_model_call": "it finds its model by the variables OPENAI_BASE_URL and OPENAI_API_KEY, ANTHROPIC's or GEMINI's",
    "calls_unanswered": "`seatrial calls {folder} {trial}` shows them",
}


class AgentWatch:
    """Takes notice of finished trials. Of a job that goes on, fewer than the usual number of trials decide nothing."""

    def __init__(self, trials: Sequence[TrialPlan], folder: Path, tell: Observer, *, resumed: bool = False) -> None:
        self._folder = folder
        self._tell = tell
        self._resumed = resumed
        self._order: dict[str, list[str]] = defaultdict(list)
        for plan in trials:
            self._order[plan.agent.title].append(plan.trial_id)
        self._ended: dict[str, Literal["never ran", "failed"]] = {}
        self._told: set[tuple[str, str]] = set()

    def note(self, plan: TrialPlan, record: TrialRecord) -> str | None:
        """Take notice of a finished trial; returns why the job should stop, None while it should go on."""
        title = plan.agent.title
        for warning in record.warnings:
            if warning.code not in NEVER_RAN:
                continue
            self._warn(title, record.trial_id, warning.code, warning.message)
        if title not in self._order:
            return None
        if record.failure is None and not record.never_ran:
            del self._order[title]
            return None
        self._ended[plan.trial_id] = "never ran" if record.never_ran else "failed"
        decisive = self._decisive(title)
        return self._reason(title, record, decisive) if decisive else None

    def _decisive(self, title: str) -> int:
        """How many of the agent's first trials have ended, none of which says that it runs; 0 while that is open.

        What a broken machine ended says nothing about an agent and is passed over.
        """
        silent = 0
        for trial_id in self._order[title]:
            if trial_id not in self._ended:
                return 0
            silent += self._ended[trial_id] == "never ran"
            if silent == _FIRST:
                return silent
        return 0 if self._resumed else silent

    def _warn(self, title: str, trial_id: str, code: str, message: str) -> None:
        if (title, code) not in self._told:
            self._told.add((title, code))
            advice = f"; {_ADVICE[code].format(folder=self._folder, trial=trial_id)}" if code in _ADVICE else ""
            self._tell(Notice(f"Warning: agent {title!r}, {code} in {trial_id}: {message}{advice}", urgent=True))

    def _reason(self, title: str, record: TrialRecord, decisive: int) -> str:
        trials = "its only trial" if decisive == 1 else f"its first {decisive} trials"
        last = record.warnings[-1] if record.warnings else None
        why = f" ({last.code}: {last.message})" if last else ""
        resume = shlex.join(("seatrial", "resume", str(self._folder)))
        return (
            f"the agent {title!r} never really ran in {trials}{why}. If its command or model is wrong, start a new "
            f"job. If something else was, correct it and run these trials again: {resume} --retry-warned. To let them "
            f"count and go on: {resume} --keep-going"
        )
