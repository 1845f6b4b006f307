"""Where trials run: this machine, or the nodes of a cluster. A place is had for one try of one trial.

The protocols are for all engines; this machine's own places are here too. Nodes are in `ray/pool.py`.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from seatrial.jobs.admission import Admission, machine_memory_mb
from seatrial.model.job import TrialOptions
from seatrial.model.loaded_task import Task
from seatrial.model.record import TrialRecord
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

RunTrial = Callable[[TrialSpec, Path, Observer], Awaitable[TrialRecord]]
"""Runs a trial, whose files end up in the folder, on this machine. What it raises is recorded as a failure."""


class TrialPlace(NamedTuple):
    """Room for one try."""

    run: RunTrial
    node: str | None = None
    """The machine's name, None for the one we are on."""


class Places(Protocol):
    """All the room that there is."""

    def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AbstractAsyncContextManager[TrialPlace]:
        """Room for one try, as soon as there is some; on nodes in `avoid` only where there are no others."""
        ...


class JobPlaces(Places, Protocol):
    """All the room that a run of a job has."""

    @property
    def slots(self) -> int:
        """How many trials can run at once."""
        ...

    @property
    def at_once(self) -> int:
        """How many trials may run or wait for a place at once."""
        ...


class LocalPlaces:
    """This machine. Trials wait for a slot, and for the memory that their tasks declare."""

    def __init__(self, run: RunTrial, slots: int, memory_mb: int | None = None) -> None:
        self.slots = self.at_once = slots
        self._place = TrialPlace(run)
        self._admission = Admission(slots, machine_memory_mb() if memory_mb is None else memory_mb)

    def place(self, spec: TrialSpec, avoid: frozenset[str]) -> AbstractAsyncContextManager[TrialPlace]:
        return self._admission.place(memory_of(spec.task, spec.options), self._place)


def memory_of(task: Task, options: TrialOptions) -> int:
    """How much memory a trial of a task may take; with a separate verifier, both of its sandboxes."""
    environment, verifier = task.config.environment, task.config.verifier
    own = options.memory_mb or environment.memory_mb or 0
    if "separate" not in (options.isolation, verifier.environment_mode):
        return own
    return own + ((verifier.environment.memory_mb or 0) if verifier.environment else own)
