"""Rollouts that are trials: let in, tried again and kept by the same functions as the trials of a job."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.env.results import Output
from seatrial.env.rollout import RolloutPlace
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, RowResult, failed_row, run_row
from seatrial.errors import HostExhaustedError, TrialError
from seatrial.jobs.admission import Admission, machine_memory_mb
from seatrial.jobs.attempt import TryOptions, settle
from seatrial.jobs.keeping import Keeper, ScratchKeeper
from seatrial.jobs.places import TrialPlace, memory_of
from seatrial.jobs.room import Room
from seatrial.model.record import TrialRecord
from seatrial.sandbox.host.watch import USUAL_WAIT_SEC
from seatrial.trial.events import Event, Notice, Observer, TrialRetried
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.env.environment import Environment
    from seatrial.env.running import RunPlan

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class RolloutPlaces:
    """This machine. Rollouts wait for a slot, and for the memory that their tasks declare.

    `rows` are those that are being rolled out, `results` what has become of them, by the ids of their trials.
    """

    environment: "Environment"
    plan: RowPlan
    slots: int
    admission: Admission
    rows: dict[str, Row] = field(default_factory=dict)
    results: dict[str, RowResult] = field(default_factory=dict)
    node: None = None

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[TrialPlace]:
        """Room on this machine."""
        async with self.admission.place(memory_of(spec.task, spec.options)):
            yield self

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Roll out the row of the trial."""
        plan = replace(self.plan, place=RolloutPlace(spec, folder))
        self.results.pop(spec.trial_id, None)  # of the try before
        self.results[spec.trial_id] = result = await run_row(self.environment, self.rows[spec.trial_id], plan)
        assert result.record is not None  # noqa: S101 - it has a place
        return result.record


@dataclass(frozen=True, slots=True)
class TrialRunner:
    """Carries out the rollouts of a plan that are trials."""

    places: RolloutPlaces
    options: TryOptions

    async def run(self, row: Row, spec: TrialSpec, earlier: int = 0) -> Output:
        """The output of a row: that of the last try. One for which this machine has no room for long is an error."""
        places = self.places
        places.rows[spec.trial_id] = row
        try:
            record = await settle(self.options, spec, earlier)
            result = places.results.get(spec.trial_id)
        except HostExhaustedError as error:
            return failed_row(row, places.plan, error)
        finally:
            del places.rows[spec.trial_id]
            places.results.pop(spec.trial_id, None)
        if result is None:  # a bug of ours, which the record tells of
            return failed_row(row, places.plan, TrialError(str(record and record.failure)))
        return result.output


def make_places(environment: "Environment", plan: "RunPlan", row_plan: RowPlan) -> RolloutPlaces:
    """The room that rollouts of a plan have."""
    return RolloutPlaces(environment, row_plan, plan.workers, Admission(plan.workers, machine_memory_mb()))


def make_runner(places: RolloutPlaces, keeper: Keeper, room: Room, retries: int) -> TrialRunner:
    """What carries out rollouts there."""
    return TrialRunner(places, TryOptions(places, keeper, room, room.observe, retries))


def make_room(remedy: str) -> Room:
    """Waits for room on this machine, which is logged; when there is none for long, says what to do then."""
    return Room(remedy, USUAL_WAIT_SEC, _log_event)


def _log_event(event: Event) -> None:
    if isinstance(event, Notice):
        _log.warning("%s", event.text)
    elif isinstance(event, TrialRetried):
        failure = event.failure
        _log.warning("%s is tried again after try %s: %s", event.trial_id, event.tries, failure.message)


class UnstoredTrials:
    """Keeps no output of trials."""

    def __init__(self, environment: "Environment", plan: "RunPlan", row_plan: RowPlan) -> None:
        self._environment = environment
        self._plan = row_plan
        places = make_places(environment, plan, row_plan)
        self._runner = make_runner(places, ScratchKeeper(), make_room("another evaluation"), plan.retries)

    async def produce(self, row: Row) -> Output:
        """A new output. A row that no trial can be made of is rolled out nevertheless, and says why itself."""
        try:
            spec = self._environment.trial_spec(row, self._plan.model)
        except Exception:  # noqa: BLE001 - a stranger's row; its rollout runs into the same, and says so
            return (await run_row(self._environment, row, self._plan)).output
        return await self._runner.run(row, spec)
