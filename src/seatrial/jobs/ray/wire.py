"""What coordinator and runners say to each other: small types, sent as JSON, so that nothing of ours is pickled.

Bulk goes beside it as plain bytes.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from seatrial.images.copying import ImageOffer, LayerCopy
from seatrial.jobs.preflight import PreflightPlan
from seatrial.model.base import Sha256, StrictModel
from seatrial.model.events import Notice
from seatrial.model.job import AgentOptions, ModelOptions, TrialOptions
from seatrial.model.record import TrialRecord
from seatrial.sandbox.api import Capabilities
from seatrial.trial.events import PhaseStarted
from seatrial.trial.spec import TrialSpec

PIECE_BYTES = 4 * 2**20
"""The most that goes in one message; larger things go in pieces of this size."""

INLINE_BYTES = 2**20
"""What a trial leaves goes with its result up to this size."""

POLL_SEC = 20.0
"""How long a runner lets its coordinator wait for news, if there are none."""

FileKind = Literal["task", "agent", "file"]


class FileNeed(StrictModel):
    """A folder or file of the coordinator that a node needs, by content; `name` is that of a single file."""

    kind: FileKind
    digest: Sha256
    path: str
    name: str | None = None


Need = FileNeed | ImageOffer | LayerCopy
"""What goes to a node by its digest: files, or an image and its layers one by one."""


class RunnerSettings(StrictModel):
    """What a runner is told once, before anything else, and nobody writes down: it holds keys."""

    trial: TrialOptions
    model: ModelOptions
    variables: dict[str, str] = Field(default_factory=dict, repr=False)
    """Those of the coordinator's machine that upstreams, agents and tasks may have."""
    starting: int | None = None
    slots: int | None = None
    files: tuple[FileNeed, ...] = ()
    """What the options name by path, as it is called on the coordinator's machine."""
    agents: tuple[AgentOptions, ...] = ()
    """Those that the node must be able to make."""
    sent: str | None = Field(default=None, repr=False)
    """What carries trials out there in place of our own way, pickled, in base 64."""


class NodeReport(StrictModel):
    """What a runner found on its node. Without `capabilities`, no trial can run there: `reason` says why."""

    version: str
    python: str
    host: str
    pid: int
    cores: int
    memory_mb: int
    disk_free_mb: int
    slots: int
    capabilities: Capabilities | None = None
    reason: str | None = None


class TrialEnded(StrictModel):
    """A trial has come to its end on a node: with a record, or with the `error` that was not its own.

    What it left is an archive of `size` bytes that unpacks to no more than `content`. `shortage` says what the node was
    out of then.
    """

    kind: Literal["ended"] = "ended"
    lease: str
    record: TrialRecord | None = None
    error: str | None = None
    size: int = 0
    content: int = 0
    shortage: str | None = None


class Happened(StrictModel):
    """Something that an observer of a running trial is told."""

    kind: Literal["happened"] = "happened"
    lease: str
    phase: PhaseStarted | None = None
    notice: Notice | None = None


class RoomAgain(StrictModel):
    """A node that was out of something has it again."""

    kind: Literal["room"] = "room"


class RunnerEnds(StrictModel):
    """A runner is about to end by itself, with all that it runs."""

    kind: Literal["runner_ends"] = "runner_ends"
    reason: str


News = TrialEnded | Happened | RoomAgain | RunnerEnds
_AnyNews = Annotated[News, Field(discriminator="kind")]

Batch = tuple[int, list[tuple[bytes, bytes]]]
"""The number of the last piece of news, and each as JSON with the archive that comes along, if it does."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right and duty to carry out one try of a trial; no two have the same number in one run."""

    trial_id: str
    number: int

    def __str__(self) -> str:
        return f"{self.number}.{self.trial_id}"


_news: TypeAdapter[News] = TypeAdapter(_AnyNews)
_needs: TypeAdapter[Need] = TypeAdapter(Annotated[Need, Field(discriminator="kind")])
_specs: TypeAdapter[TrialSpec] = TypeAdapter(TrialSpec)
_plans: TypeAdapter[PreflightPlan] = TypeAdapter(PreflightPlan)


def read_news(data: bytes) -> News:
    """A piece of news from its JSON. Raises ValueError."""
    return _news.validate_json(data)


def read_need(data: bytes) -> Need:
    """What goes to a node, from its JSON. Raises ValueError."""
    return _needs.validate_json(data)


def write_spec(spec: TrialSpec) -> bytes:
    return _specs.dump_json(spec)


def read_spec(data: bytes) -> TrialSpec:
    """A spec from its JSON. Raises ValueError."""
    return _specs.validate_json(data)


def write_plan(plan: PreflightPlan) -> bytes:
    return _plans.dump_json(plan)


def read_plan(data: bytes) -> PreflightPlan:
    """What is to be tried out, from its JSON. Raises ValueError."""
    return _plans.validate_json(data)


def digest_of(content: bytes) -> str:
    """What a single file is known by."""
    return hashlib.sha256(content).hexdigest()
