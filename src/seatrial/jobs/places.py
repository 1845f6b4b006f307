"""Where trials run: this machine, or the nodes of a cluster. A place is had for one try of one trial."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from seatrial.jobs.admission import Admission
from seatrial.model.job import TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.model.task import Task
from seatrial.trial.events import Observer
from seatrial.trial.machinery import Machinery
from seatrial.trial.run import run_trial
from seatrial.trial.spec import TrialSpec


class TrialPlace(Protocol):
    """Room for one try. `node` names the machine where it is one of several."""

    @property
    def node(self) -> str | None:
        """The machine's name, None for the one we are on."""
        ...

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Run the trial; its files end up in `folder`, on this machine.

        What it raises is taken for a bug and recorded as a failure.
        """
        ...


class Places(Protocol):
    """All the room that a run has."""

    @property
    def slots(self) -> int:
        """How many trials can run at once."""
        ...

    def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AbstractAsyncContextManager[TrialPlace]:
        """Room for one try, as soon as there is some; on nodes in `avoid` only where there are no others."""
        ...


@dataclass(frozen=True, slots=True)
class LocalPlaces:
    """This machine. Trials wait for a slot, and for the memory that their tasks declare."""

    machinery: Machinery
    admission: Admission
    slots: int
    node: None = None

    @asynccontextmanager
    async def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AsyncIterator[TrialPlace]:
        """Room on this machine."""
        async with self.admission.place(memory_of(spec.task, spec.options)):
            yield self

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Run the trial here."""
        return await run_trial(spec, self.machinery, folder, observe)


def memory_of(task: Task, options: TrialOptions) -> int:
    """How much memory a trial of a task may take; with a separate verifier, both of its sandboxes."""
    environment, verifier = task.config.environment, task.config.verifier
    own = options.memory_mb or environment.memory_mb or 0
    if "separate" not in (options.isolation, verifier.environment_mode):
        return own
    return own + ((verifier.environment.memory_mb or 0) if verifier.environment else own)
