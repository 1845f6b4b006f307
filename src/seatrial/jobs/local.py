"""The local engine: this machine's own sandboxes, as many trials at once as it can bear."""

import asyncio
from time import monotonic

from seatrial.descriptors import REMEDY, affordable_trials, limit
from seatrial.jobs.admission import Admission, cores, machine_memory_mb
from seatrial.jobs.attempt import shielded
from seatrial.jobs.carry_out import carry_out, out_of_time
from seatrial.jobs.enforceable import check_enforceable
from seatrial.jobs.engine import JobOutcome
from seatrial.jobs.machinery import open_machinery
from seatrial.jobs.places import LocalPlaces
from seatrial.jobs.preflight import plan_preflight, preflight
from seatrial.jobs.prepare import PreparedJob
from seatrial.model.job import RunOptions
from seatrial.trial.events import Notice, Observer

LEAST_CONCURRENT = 4  # trials wait for models and clocks more than they compute


class LocalEngine:
    """Runs trials on this machine."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options

    async def run(self, job: PreparedJob, observe: Observer) -> JobOutcome:
        """Carry out a job; see Engine."""
        spec, tell, options = job.store.file.spec, shielded(observe), self._options
        began = monotonic()
        async with open_machinery(
            spec.trial.backend,
            spec.trial,
            spec.model,
            say=lambda line: tell(Notice(line)),
            starting=options.starting,
        ) as machinery:
            check_enforceable(job.needed_tasks(), spec.trial, await machinery.backend.probe())
            if options.preflight:
                try:
                    async with asyncio.timeout(options.max_wall_sec):
                        await preflight(plan_preflight(job), machinery, tell)
                except TimeoutError:
                    return before_the_first(job)
            slots = affordable(options.concurrent or max(LEAST_CONCURRENT, cores()), tell)
            places = LocalPlaces(machinery, Admission(slots, machine_memory_mb()), slots)
            return await carry_out(job, places, observe, workers=slots, began=began)


def before_the_first(job: PreparedJob) -> JobOutcome:
    """The outcome of a run whose time was over before its first trial."""
    finished = len(job.store.finished())
    return JobOutcome(job.store, finished + len(job.trials), finished, 0, "wall budget", out_of_time(0))


def affordable(concurrent: int, tell: Observer) -> int:
    """How many trials to run at once: as many as asked for, unless this process may not open enough files for them."""
    found = affordable_trials(concurrent)
    if found < concurrent:
        tell(
            Notice(
                f"{found} of {concurrent} trials run at once: this process may have no more than {limit()} files "
                f"open; to run more, {REMEDY}"
            )
        )
    return found
