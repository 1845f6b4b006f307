"""Rollouts that are trials: let in, tried again and kept by the same functions as the trials of a job."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.results import Output
from seatrial.env.row_places import LocalRows, RowPlace, RowPlaces
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, RowResult, failed_row, run_row
from seatrial.errors import SandboxError, TrialError
from seatrial.jobs.admission import Admission, machine_memory_mb
from seatrial.jobs.attempt import TryOptions, settle
from seatrial.jobs.keeping import ScratchKeeper
from seatrial.jobs.places import TrialPlace
from seatrial.jobs.room import Room
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import USUAL_WAIT_SEC
from seatrial.trial.events import Event, Notice, Observer, TrialRetried
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RolloutPlaces:
    """Places where trials are rollouts.

    `rows` are those that are being rolled out, `results` what has become of them, by the ids of their trials.
    """

    inner: RowPlaces
    rows: dict[str, Row] = field(default_factory=dict)
    results: dict[str, RowResult] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """How many rollouts can run at once."""
        return self.inner.slots

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[TrialPlace]:
        """Room for one try."""
        async with self.inner.place(spec, avoid) as place:
            yield _RolloutPlace(self, place)


@dataclass(frozen=True, slots=True)
class _RolloutPlace:
    places: RolloutPlaces
    place: RowPlace

    @property
    def node(self) -> str | None:
        return self.place.node

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Roll out the row of the trial."""
        rows, results = self.places.rows, self.places.results
        results.pop(spec.trial_id, None)  # of the try before
        results[spec.trial_id] = result = await self.place.run(rows[spec.trial_id], spec, folder, observe)
        assert result.record is not None  # noqa: S101 - it has a place
        return result.record


@dataclass(frozen=True, slots=True)
class TrialRunner:
    """Carries out the rollouts of a plan that are trials."""

    plan: RowPlan
    places: RolloutPlaces
    options: TryOptions

    async def run(self, row: Row, spec: TrialSpec, earlier: int = 0) -> Output:
        """The output of a row: that of the last try. One for which there is no room for long is an error."""
        places = self.places
        places.rows[spec.trial_id] = row
        try:
            record = await settle(self.options, spec, earlier)
            result = places.results.get(spec.trial_id)
        except TrialError as error:  # no room here, or no machine left: no concern of those that have one
            return failed_row(row, self.plan, error)
        finally:
            del places.rows[spec.trial_id]
            places.results.pop(spec.trial_id, None)
        if result is None:  # a machine that is gone or a bug of ours, of which only the record tells
            return failed_row(row, self.plan, _error_of(record))
        return result.output


def _error_of(record: TrialRecord | None) -> TrialError:
    failure = record.failure if record else None
    error = SandboxError if failure and failure.retryable else TrialError
    return error(failure.message if failure else "the rollout has no output")


@asynccontextmanager
async def open_places(environment: "Environment", plan: "RunPlan", row_plan: RowPlan) -> AsyncIterator[RolloutPlaces]:
    """The room that rollouts of a plan have, for the length of a block. Raises UsageError."""
    if plan.engine == "local":
        admission = Admission(plan.workers, machine_memory_mb())
        yield RolloutPlaces(LocalRows(environment, row_plan, plan.workers, admission))
        return
    from seatrial.env.sent_rows import open_sent_rows  # noqa: PLC0415 - only for those who have several machines

    async with open_sent_rows(environment, plan, row_plan, log_event) as rows:
        yield RolloutPlaces(rows)


def make_room(remedy: str) -> Room:
    """Waits for room on this machine, which is logged; when there is none for long, says what to do then."""
    return Room(remedy, USUAL_WAIT_SEC, log_event)


def log_event(event: Event) -> None:
    """Log what those who evaluate should know of rollouts under way."""
    if isinstance(event, Notice):
        _log.warning("%s", event.text)
    elif isinstance(event, TrialRetried):
        failure = event.failure
        _log.warning("%s is tried again after try %s: %s", event.trial_id, event.tries, failure.message)


@dataclass(frozen=True, slots=True)
class UnstoredTrials:
    """Keeps no output of trials."""

    environment: "Environment"
    runner: TrialRunner

    async def produce(self, row: Row) -> Output:
        """A new output. A row that no trial can be made of is rolled out nevertheless, and says why itself."""
        plan = self.runner.plan
        try:
            spec = self.environment.trial_spec(row, plan.model)
        except Exception:  # noqa: BLE001 - a stranger's row; its rollout runs into the same, and says so
            return (await run_row(self.environment, row, plan)).output
        return await self.runner.run(row, spec)

    async def scored(self, outputs: Sequence[Output]) -> None:
        """Nothing."""


@asynccontextmanager
async def open_unstored_trials(
    environment: "Environment", plan: "RunPlan", row_plan: RowPlan
) -> AsyncIterator[UnstoredTrials]:
    """Rollouts of a plan that are trials and kept nowhere, for the length of a block. Raises UsageError."""
    async with open_places(environment, plan, row_plan) as places:
        room = make_room("another evaluation")
        options = TryOptions(places, ScratchKeeper(), room, room.observe, plan.retries)
        yield UnstoredTrials(environment, TrialRunner(row_plan, places, options))
