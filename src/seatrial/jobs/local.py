"""The local engine: this machine's own sandboxes, as many trials at once as it can bear."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from seatrial.descriptors import REMEDY, affordable_trials, limit
from seatrial.jobs.admission import usual_slots
from seatrial.jobs.checks import check_enforceable
from seatrial.jobs.machinery import open_machinery
from seatrial.jobs.places import LocalPlaces
from seatrial.jobs.preflight import plan_preflight, preflight
from seatrial.jobs.prepare import PreparedJob
from seatrial.model import events
from seatrial.model.events import Notice
from seatrial.model.job import RunOptions
from seatrial.trial.events import Observer
from seatrial.trial.run import run_trial


class LocalEngine:
    """Runs trials on this machine."""

    def __init__(self, options: RunOptions) -> None:
        self._options = options

    @asynccontextmanager
    async def open(self, job: PreparedJob, observe: Observer) -> AsyncIterator[LocalPlaces]:
        spec, options = job.store.file.spec, self._options
        async with open_machinery(
            spec.trial.backend,
            spec.trial,
            spec.model,
            observe=observe,
            starting=options.starting,
        ) as machinery:
            check_enforceable(job.needed_tasks(), spec.trial, await machinery.backend.probe())
            if options.preflight:
                await preflight(plan_preflight(job), machinery, observe)
            slots = affordable(options.concurrent or usual_slots(), observe)
            yield LocalPlaces(lambda spec, folder, observe: run_trial(spec, machinery, folder, observe), slots)


def affordable(concurrent: int, tell: events.Observer[Notice]) -> int:
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
