"""Engine: where a prepared job is carried out, on this machine or on many. The store decides what counts.

An engine says where trials run (`jobs/places.py`). Budgets, retries and records are the same for all of them
(`jobs/carry_out.py`).
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from inspect import iscoroutinefunction
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, Protocol, cast, runtime_checkable

from seatrial.errors import UsageError
from seatrial.model.job import RunOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.plugins import load_plugin, plugin_names
from seatrial.store.job_store import JobStore
from seatrial.trial.events import Observer
from seatrial.trial.spec import TrialSpec

if TYPE_CHECKING:
    from seatrial.jobs.places import JobPlaces, Places
    from seatrial.jobs.prepare import PreparedJob

ENTRY_POINTS = "seatrial.engines"

Stop = Literal["complete", "trial budget", "wall budget", "agent warnings"]


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


class Engine(Protocol):
    """Has places for the trials of one job."""

    def open(self, job: "PreparedJob", observe: Observer) -> "AbstractAsyncContextManager[JobPlaces]":
        """Places for the trials that have no record yet, for the length of a block.

        Raises UsageError when it turns out that the job cannot be done as asked, and TrialError when no sandbox starts.
        """
        ...


class PortableTrials(Protocol):
    """Carries out trials on a machine that it was sent to, pickled. Opened there once, for all of them."""

    @property
    def images(self) -> Sequence[str]:
        """The images that its trials may ask for, besides those that their tasks name."""
        ...

    @property
    def modules(self) -> Sequence[ModuleType]:
        """The modules that are sent along; all others that it imports are installed there."""
        ...

    def open(self) -> AbstractAsyncContextManager[object]:
        """Open what all trials there share, for the length of a block."""
        ...

    async def run(self, spec: TrialSpec, folder: Path, observe: Observer) -> TrialRecord:
        """Carry out one trial while it is open, leaving its files in the folder."""
        ...


@runtime_checkable
class SendingEngine(Protocol):
    """An engine that also carries out the rollouts of an environment, on machines that it sends the environment to."""

    def open_places(
        self, trials: PortableTrials, options: TrialOptions, tell: Observer
    ) -> "AbstractAsyncContextManager[Places]":
        """Places that carry out such trials, for the length of a block. Raises UsageError for what cannot be sent."""
        ...


class EngineFactory(Protocol):
    """What a plug-in registers."""

    def __call__(self, options: RunOptions) -> Engine:
        """An engine for one run. Raises UsageError for options it cannot use."""
        ...


def make_engine(options: RunOptions) -> Engine:
    """The engine that a run names. Raises UsageError for one that there is not, and for options it cannot use."""
    factory = cast(EngineFactory, load_plugin(ENTRY_POINTS, options.engine))
    try:
        made = factory(options)
    except UsageError:
        raise
    except Exception as error:  # a stranger's plug-in may fail in any way
        name = type(error).__name__
        raise UsageError(f"the engine {options.engine!r} cannot be made: {name}: {error}") from error
    opened = getattr(made, "open", None)
    if not callable(opened) or iscoroutinefunction(opened):
        raise UsageError(
            f"the engine {options.engine!r} is a {type(made).__name__}, expected a seatrial.jobs.engine.Engine, whose "
            "`open` is an async context manager that yields places; engines of earlier versions had `run` instead"
        )
    return made


def check_engine(options: RunOptions) -> None:
    """Raise UsageError for an engine that there is not, or an address for one that has none."""
    if options.engine not in plugin_names(ENTRY_POINTS):
        load_plugin(ENTRY_POINTS, options.engine)
    if options.address is not None and options.engine == "local":
        raise UsageError("the local engine runs on this machine alone and takes no --address; add --engine ray")
