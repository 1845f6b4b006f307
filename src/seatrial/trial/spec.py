"""TrialSpec: everything that describes one trial before it starts. Plain data, so it can be sent to another machine."""

from dataclasses import dataclass, field

from seatrial.model.job import AgentOptions, TrialOptions
from seatrial.model.task import Task
from seatrial.sandbox.host.watch import Company


@dataclass(frozen=True, slots=True)
class TrialSpec:
    """One attempt of one agent at one task. One that is a rollout has the `row` of its dataset, as JSON, to be sent."""

    trial_id: str
    task: Task
    task_digest: str
    agent: AgentOptions
    attempt: int = 1
    job: str | None = None
    job_id: str | None = None
    options: TrialOptions = field(default_factory=TrialOptions)
    company: Company = "others"
    row: str | None = None
