"""What a human reviewer said about one trial. It stands beside the reward and never changes it."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from seatrial.model.base import StrictModel, Timestamp


class Judgment(StrEnum):
    """A reviewer's verdict; `defer` leaves it to someone else."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    DEFER = "defer"


class Annotation(StrictModel):
    """One reviewer's verdict on one trial."""

    reviewer_id: Annotated[str, Field(min_length=1)]
    reviewer_discipline: str | None = None
    timestamp: Timestamp
    judgment: Annotated[Judgment, Field(strict=False)]
    categories: list[str] = Field(default_factory=list)
    notes: str | None = None
