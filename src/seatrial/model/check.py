"""What is found out about a verifier: findings that an author can act on, how each check went, and a grade."""

from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import Field

from seatrial.model.base import Fraction01, JsonObject, NonNegative, NonNegativeInt, Sha256, StrictModel, Timestamp

CHECK_SCHEMA_VERSION: Literal[1] = 1

CheckId = Literal["V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13"]
REMOVED_CHECKS: tuple[CheckId, ...] = ("V13",)
"""Checks that only stored results have."""
Weight = Literal["critical", "major", "minor", "note"]
"""How much a finding matters: rewards cannot be trusted at all; some are wrong; some may be; worth knowing."""

Grade = Literal["A", "B", "C", "D", "F"]
"""A: nothing found. B: minor findings, or something could not be tried. C and D: major ones. F: a critical one."""

CheckStatus = Literal["passed", "failed", "skipped", "not_run", "error"]


class CheckFinding(StrictModel):
    """One thing that is wrong with a verifier, in words that its author can act on.

    `id` names it in every run alike. `reproduce` is the one command that shows it. It is `accepted` by the task's own
    `[check] accept`, or `known` from a baseline; then it fails nothing.
    """

    check: CheckId
    code: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    subject: str = ""
    weight: Weight
    message: str
    fix: str | None = None
    reproduce: str
    case: str | None = None
    evidence: JsonObject | None = None
    accepted: bool = False
    known: bool = False

    @property
    def id(self) -> str:
        """Such as `V5/any-value-accepted:utilisation`."""
        return f"{self.check}/{self.code}" + (f":{self.subject}" if self.subject else "")

    @property
    def counts(self) -> bool:
        """Whether it has a part in the grade and the exit status."""
        return not (self.accepted or self.known)

    def is_named_by(self, pattern: str) -> bool:
        """Whether one entry of `accept` means this finding; `*` stands for anything in it."""
        return self.id == pattern or fnmatchcase(self.id, pattern)


class CheckOutcome(StrictModel):
    """How one check of a task went.

    One that was `skipped` had nothing to look at; one that is `not_run` had, and none of that was tried. These two and
    an `error` give a reason, and none of them is a pass. `figures` are what it measured, such as the share of mutants
    that were killed.
    """

    check: CheckId
    status: CheckStatus
    reason: str | None = None
    tried: NonNegativeInt = 0
    """Verifications that were run for it."""
    left_out: NonNegativeInt = 0
    """Verifications that were not run, for whatever reason."""
    out_of_time: NonNegativeInt = 0
    """Those of `left_out` that there was no time for. Results of earlier versions do not tell them apart."""
    figures: JsonObject = Field(default_factory=dict)


class TaskCheck(StrictModel):
    """Everything that was found out about the verifier of one task.

    `verifications` counts runs of the verifier, `states` the end states that they judged, and `rebuilt` how often one
    had to be made again. `options` is a digest of all that the result depends on besides the task.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = CHECK_SCHEMA_VERSION
    task: str
    name: str
    digest: Sha256
    backend: str
    image: str
    grade: Grade | None
    """By what was found; None where nothing could be judged."""
    reasons: tuple[str, ...] = ()
    out_of_time: NonNegativeInt = 0
    """Verifications that the budget had no room for: the check is incomplete, and the grade may be too good."""
    outcomes: tuple[CheckOutcome, ...] = ()
    findings: tuple[CheckFinding, ...] = ()
    oracle_reward: Fraction01 | None = None
    verifications: NonNegativeInt = 0
    states: NonNegativeInt = 0
    rebuilt: NonNegativeInt = 0
    verifying_sec: NonNegative = 0.0
    duration_sec: NonNegative = 0.0
    finished_at: Timestamp
    options: Sha256 | None = None


class CheckReport(StrictModel):
    """The results of all tasks that were checked together, as a file for other programs."""

    schema_version: Annotated[int, Field(ge=1, le=1)] = CHECK_SCHEMA_VERSION
    seatrial_version: str
    tasks: tuple[TaskCheck, ...]
