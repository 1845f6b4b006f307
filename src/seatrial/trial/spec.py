"""TrialSpec: everything one trial needs to know before it starts."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seatrial.agents.api import Agent
from seatrial.images.resolver import HOST_ONLY, ImageResolver
from seatrial.model.job import AgentFiles, TrialOptions
from seatrial.model.task import Task
from seatrial.sandbox.host.watch import Company

if TYPE_CHECKING:  # an HTTP server and client, which most trials do without
    from seatrial.gateway.access import ModelAccess


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """One attempt of one agent at one task."""

    trial_id: str
    task: Task
    task_digest: str
    agent: Agent
    attempt: int = 1
    job: str | None = None
    job_id: str | None = None
    options: TrialOptions = field(default_factory=TrialOptions)
    model: "ModelAccess | None" = None
    images: ImageResolver = HOST_ONLY
    agent_setup: str | None = None
    agent_files: tuple[AgentFiles, ...] = ()
    company: Company = "others"
