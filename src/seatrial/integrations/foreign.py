"""What an import needs to know of a trial that another program ran, whichever program that was.

Readers of foreign formats make these; nothing else of a format is seen outside its reader.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from seatrial.model.agent import AgentResult
from seatrial.model.imported import ImportedFrom, SourceFormat
from seatrial.model.record import Failure, ModelUsage, PhaseTime
from seatrial.model.trace import ModelCall


@dataclass(frozen=True, slots=True)
class ForeignTask:
    """A task as its source names it. `digest` is of all that the source says about its content."""

    id: str
    name: str
    digest: str
    source: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class ForeignAgent:
    """Who acted, and with which model."""

    name: str
    version: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class ForeignVerdict:
    """What the source's verifier said of a trial, or of one of its steps: a `score`, or why there is none.

    `parts` are the other values it gave.
    """

    score: float | None
    fault: str = ""
    notes: tuple[str, ...] = ()
    parts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForeignStep:
    """One step of a task that has several; its verdict is None where it was never judged."""

    name: str
    verdict: ForeignVerdict | None = None


@dataclass(frozen=True, slots=True)
class ForeignTrial:
    """One trial: a `verdict`, or a `failure` of the machinery it ran on.

    `counted_as` is the number with which it stands in the mean of its source; None if it is not in there.
    """

    task: ForeignTask
    agent: ForeignAgent
    origin: ImportedFrom
    counted_as: float | None
    verdict: ForeignVerdict | None = None
    failure: Failure | None = None
    agent_result: AgentResult | None = None
    usage: ModelUsage | None = None
    times: Sequence[PhaseTime] = ()
    steps: Sequence[ForeignStep] = ()
    calls: Sequence[ModelCall] = ()


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of the source that cannot be read: where it is, and what is wrong with it."""

    place: str
    reason: str


class ForeignSource(Protocol):
    """The results of another program in a folder."""

    @property
    def format(self) -> SourceFormat:
        """Which program's."""
        ...

    @property
    def version(self) -> str | None:
        """Which version of it, as far as it says so."""
        ...

    @property
    def sha256(self) -> str:
        """A digest of all results."""
        ...

    @property
    def stored_means(self) -> Mapping[ForeignAgent, float]:
        """The mean that the source gives for each agent, where it does."""
        ...

    @property
    def rule(self) -> str:
        """How the source counts what has no verdict, in a few words."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of the numbers should know besides."""
        ...

    def trials(self) -> Iterator[ForeignTrial | Skipped]:
        """All trials, in an order that is the same each time. Raises ImportSourceError if the source has changed."""
        ...
