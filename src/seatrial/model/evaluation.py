"""The validated outcome of verifying one trial: the reward, whether it can be believed, and why it is what it is."""

import re
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from seatrial.model.base import Fraction01, JsonObject, NonNegative, NonNegativeInt, StrictModel, Timestamp

# What a reviewer said about one trial. It stands beside the reward and never changes it.


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


OUTPUT_MISSING = "output_missing"
OUTPUT_UNPARSEABLE = "output_unparseable"
"""What is wrong with an output that only the instruction asks for. It costs no reward, but it explains a zero."""

NEEDS_SYSTEM = "needs_system_of_agent"
"""What is said of a task whose own solution passes only on the system that it left."""

NONDETERMINISTIC = "nondeterministic_verifier"
"""What is said of a verifier that, asked again about the same end state, says something else."""

RUN_CATEGORIES = frozenset({NEEDS_SYSTEM, NONDETERMINISTIC}).union(
    """
    changed_during_verification changes_truncated disputed_verdict hidden_from_verifier interpreter_changed
    loader_changed module_shadowed output_of_verifier package_hook_planted planted_verifier_files
    processes_left_running program_changed pytest_hook_planted python_path_changed shell_startup_changed
    startup_hook_planted reference_units services_beside services_ended system_changed system_folder_replaced
    verifier_broken verifier_silenced verifier_timeout verifier_tool_missing verifier_tools_restored
    """.split()  # noqa: SIM905 - names read better as text
)
"""Categories of what only a run itself can know. No verifier can give a tag of one: whoever counts them counts ours."""


_BETWEEN = re.compile(r"(?:[^\w-]|_)+")
_MOST_LETTERS = 100


def category_slug(text: str) -> str:
    """A category as it is counted: `Wrong unit / kN` is `wrong_unit/kn`. Empty where there is no word in it.

    Verifiers, judges and reviewers write one category in several ways. `/` is between its levels.
    """
    levels = (_BETWEEN.sub("_", level).strip("_-") for level in text[:_MOST_LETTERS].lower().split("/"))
    return "/".join(filter(None, levels))


class ErrorSource(StrEnum):
    """Who classified a failure: a program, a reviewer, or an automated judge. In a verifier's tag it is its claim."""

    MECHANICAL = "mechanical"
    HUMAN = "human"
    JUDGE = "judge"


class ErrorTag(StrictModel):
    """One classified failure. Categories are free: a task may name its own."""

    category: Annotated[str, Field(min_length=1)]
    description: str | None = None
    source: Annotated[ErrorSource, Field(strict=False)]


class ValidityCheck(StrictModel):
    """Whether the trial could be judged at all.

    Only `output_parseable=False` forces the reward to zero; the other flags are diagnostic.
    `errors` holds lines of the form `code: message`; a line that starts with `note: ` is information, not a fault.
    """

    output_parseable: bool
    schema_valid: bool
    verifier_completed: bool
    errors: list[str] = Field(default_factory=list)


class ClaimedAgreement(StrictModel):
    """What a verifier says of annotators, of whom nothing else is known."""

    annotator_count: NonNegativeInt | None = None
    inter_rater_agreement: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    agreement_metric: str | None = None


class ConfidenceMetadata(StrictModel):
    """How sure one may be of a reward: reviewers' agreement, an interval, repeated verification, judges' agreement.

    All of it is about this trial. How far reviewers of a whole job agree is a figure of the job.
    """

    annotator_count: NonNegativeInt | None = None
    inter_rater_agreement: Annotated[float, Field(ge=-1.0, le=1.0)] | None = None
    agreement_metric: str | None = None
    confidence_interval: tuple[float, float] | None = None
    confidence_method: str | None = None
    confidence_level: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    sample_size: NonNegativeInt | None = None
    verifier_repeats: NonNegativeInt | None = None
    verifier_reward_sd: NonNegative | None = None
    claimed: ClaimedAgreement | None = None
    """What the verifier says of annotators, where reviewers have judged the trial and the first fields are theirs."""

    judges: tuple[str, ...] | None = None
    """The models that assessed the trial."""

    judge_agreement: Fraction01 | None = None
    """How often they agree on average, without regard to chance."""

    judge_unscored: NonNegativeInt | None = None
    """How many questions have no usable answer, where there are any."""

    @model_validator(mode="after")
    def _interval_is_ordered(self) -> Self:
        if self.confidence_interval and self.confidence_interval[0] > self.confidence_interval[1]:
            low, high = self.confidence_interval
            raise ValueError(f"confidence_interval runs from {low} to {high}, expected low ≤ high")
        return self


class EvaluationResult(StrictModel):
    """The reward of one trial with its validity, breakdown, error tags and human verdicts."""

    reward: Fraction01
    validity: ValidityCheck
    breakdown: JsonObject | None = None
    error_taxonomy: list[ErrorTag] | None = None
    confidence: ConfidenceMetadata | None = None
    annotations: list[Annotation] | None = None

    @model_validator(mode="after")
    def _unparseable_output_earns_nothing(self) -> Self:
        if not self.validity.output_parseable and self.reward != 0.0:
            raise ValueError(f"reward is {self.reward} but the output did not parse, so it must be 0.0")
        return self
