"""Where rows are rolled out whose rollouts are trials: on this machine, or wherever an engine sends them."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from seatrial.env.rollout import RolloutPlace
from seatrial.env.rows import Row
from seatrial.env.run_row import RowPlan, RowResult, run_row
from seatrial.jobs.admission import Admission
from seatrial.jobs.places import memory_of
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.env.environment import Environment


class RowPlace(Protocol):
    """Room for one try of one rollout."""

    @property
    def node(self) -> str | None:
        """The machine's name, None for the one we are on."""
        ...

    async def run(self, row: Row, spec: TrialSpec, folder: Path, observe: Observer) -> RowResult:
        """Roll out the row; its files end up in `folder`, on this machine."""
        ...


class RowPlaces(Protocol):
    """All the room that rollouts have."""

    @property
    def slots(self) -> int:
        """How many rollouts can run at once."""
        ...

    def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AbstractAsyncContextManager[RowPlace]:
        """Room for one try, as soon as there is some; on nodes in `avoid` only where there are no others."""
        ...


@dataclass(frozen=True, slots=True)
class LocalRows:
    """This machine. Rollouts wait for a slot, and for the memory that their tasks declare."""

    environment: "Environment"
    plan: RowPlan
    slots: int
    admission: Admission
    node: None = None

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[RowPlace]:
        """Room on this machine."""
        async with self.admission.place(memory_of(spec.task, spec.options)):
            yield self

    async def run(self, row: Row, spec: TrialSpec, folder: Path, observe: Observer) -> RowResult:
        """Roll out the row here."""
        return await run_row(self.environment, row, replace(self.plan, place=RolloutPlace(spec, folder)))
