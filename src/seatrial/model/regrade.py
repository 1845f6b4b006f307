"""Regrade: how a later revision of a trial's verdict came about, without the agent and from its kept end state."""

from typing import Annotated

from pydantic import Field

from seatrial.model.base import Fraction01, JsonObject, Sha256, StrictModel, Timestamp
from seatrial.model.outcome import Outcome


class FirstVerdict(StrictModel):
    """What the trial amounted to when it ran, before anybody judged it again."""

    outcome: Outcome
    reward: Fraction01 | None = None
    broken_verifier: bool = False


class Regrade(StrictModel):
    """One verification after the trial. All revisions of one regrade have its `id`.

    `task_digest` is the task's content then; the record's own is what the agent worked on. `tests` is the folder that
    the tests were taken from, None for the task's own. `options` are those of the verification that are not the job's.
    """

    id: Annotated[str, Field(min_length=1)]
    seatrial_version: str
    started_at: Timestamp
    finished_at: Timestamp
    first: FirstVerdict
    task_digest: Sha256
    tests: str | None = None
    options: JsonObject = Field(default_factory=dict)
