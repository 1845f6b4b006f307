"""Assessment: a line of the journal of judges, which is what language models answered to the questions of a rubric.

An assessment is about one revision of one trial. It stands beside the reward and never changes it. Every vote is kept,
also one that gave no usable answer: that question is then *unscored* with its reason, which is neither a pass nor a
fail.
"""

import math
import secrets
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from seatrial.model.base import Fraction01, NonNegative, NonNegativeInt, Sha256, StrictModel, Timestamp
from seatrial.model.evaluation import ErrorTag

QuestionKind = Literal["yes_no", "choice", "number", "labels"]
Answer = bool | float | str | tuple[str, ...]
"""By the kind of its question: yes or no, a number, the name of an option, the names of labels."""

UnscoredCode = Literal["malformed", "missing", "doubled", "out_of_range", "unsupported", "refused", "timed_out", "cut"]
"""Why a vote does not count.

`malformed`: no JSON object, or an answer of the wrong type. `missing`: the judge left the question out. `doubled`: it
answered the question more than once. `out_of_range`: no such option, label or number. `unsupported`: it quotes what it
has not seen. `refused`: the model declined. `timed_out`: it took too long. `cut`: the answer was cut at its limit.
"""

Name = Annotated[str, Field(min_length=1)]
AssessmentId = Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]


class Unscored(StrictModel):
    """Why there is no answer."""

    code: UnscoredCode
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class Quote(StrictModel):
    """Words by which a judge supports an answer, and whether they occur in what it was shown."""

    text: str
    found: bool


class Vote(StrictModel):
    """What one judge answered to one question in one sample.

    A vote with `unscored` does not count. It keeps its answer where there was one, as in one that is unsupported.
    """

    judge: Name
    sample: Annotated[int, Field(ge=1)] = 1
    answer: Answer | None = None
    reason: str | None = None
    confidence: Fraction01 | None = None
    """How sure the judge is, for a question that asks for it."""

    quotes: tuple[Quote, ...] = ()
    unscored: Unscored | None = None

    @model_validator(mode="after")
    def _has_an_answer_or_a_reason(self) -> Self:
        if self.answer is None and self.unscored is None:
            raise ValueError("a vote has an answer, or a reason why there is none")
        return self


class TurnRef(StrictModel):
    """A turn of an agent: the call of its model, in a thread, and in a step of a task that has several."""

    call: NonNegativeInt
    thread: Name = "main"
    step: str | None = None


class AssessedQuestion(StrictModel):
    """One question of a rubric: all votes, and what they come to.

    `score` is 0 to 1 as the roll-up takes it, after `negate`; None for a question that is unscored or has no weight.
    """

    id: Name
    kind: QuestionKind
    weight: NonNegative = 1.0
    optional: bool = False
    tag: str | None = None
    """The category that it is about, where its rubric names one."""

    answer: Answer | None = None
    score: Fraction01 | None = None
    unscored: str | None = None
    agreement: Fraction01 | None = None
    """How far the votes that count agree, from pair to pair; None for fewer than two of them."""

    split: bool = False
    """The votes that count are not all the same, or numbers are far apart: people should look."""

    turn: TurnRef | None = None
    """The turn that a question about turns is about."""

    votes: tuple[Vote, ...]

    @property
    def confidence(self) -> float | None:
        """How sure the votes are of the answer: what they claim, times the share of votes that agree with it."""
        counted = [vote for vote in self.votes if vote.unscored is None]
        agreeing = [vote.confidence for vote in counted if vote.answer == self.answer]
        known = [each for each in agreeing if each is not None]
        if self.unscored is not None or not known or len(known) < len(agreeing):
            return None
        return math.fsum(known) / len(counted)

    @property
    def is_unscored(self) -> bool:
        return self.unscored is not None


class JudgeRef(StrictModel):
    """A model that judged, and the upstream it was asked through, as that was named; no key is in it."""

    model: Name
    upstream: str | None = None


class JudgeSampling(StrictModel):
    """How judges were asked; None leaves it to the provider."""

    temperature: NonNegative | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    samples: Annotated[int, Field(ge=1)] = 1


class JudgeUsage(StrictModel):
    """What all calls of an assessment took. The cost is None where the price of a call is not known."""

    calls: NonNegativeInt = 0
    input_tokens: NonNegativeInt = 0
    output_tokens: NonNegativeInt = 0
    cost_usd: NonNegative | None = None
    duration_sec: NonNegative = 0.0


class Assessment(StrictModel):
    """What judges answered about one revision of a trial.

    `prompt_digest` is of what a prompt has beside the rubric and the evidence. Assessments are comparable where model,
    `prompt_digest` and `rubric_digest` are the same. `evidence_digest` is of what the judges saw, and `cuts` lists what
    of it was left out. `reused` counts votes that come from an earlier assessment, for which no judge was asked.
    """

    schema_version: Annotated[int, Field(ge=1, le=1)] = 1
    id: AssessmentId
    trial_id: Name
    revision: NonNegativeInt = 0
    rubric: Name
    rubric_digest: Sha256
    prompt_digest: Sha256
    evidence_digest: Sha256
    judges: Annotated[tuple[JudgeRef, ...], Field(min_length=1)]
    sampling: JudgeSampling = JudgeSampling()
    questions: tuple[AssessedQuestion, ...]
    guard: AssessedQuestion | None = None
    """Whether what was judged addresses its evaluator, where the rubric has that asked; a yes is a tag."""

    score: Fraction01 | None = None
    unscored: str | None = None
    agreement: Fraction01 | None = None
    """The mean over its questions with two votes or more."""

    tags: tuple[ErrorTag, ...] = ()
    actions: dict[str, str] = Field(default_factory=dict)
    """What to do about a finding, by the label that has it, as the rubric says."""

    cuts: tuple[str, ...] = ()
    usage: JudgeUsage = JudgeUsage()
    reused: NonNegativeInt = 0
    started_at: Timestamp
    finished_at: Timestamp
    seatrial_version: str | None = None

    @property
    def key(self) -> str:
        """What tells this assessment from all others; copies of a journal have the same."""
        return self.id

    @property
    def split(self) -> list[AssessedQuestion]:
        """The questions about which the votes differ."""
        return [each for each in self.every_question if each.split]

    @property
    def every_question(self) -> tuple[AssessedQuestion, ...]:
        """Those of the rubric, and the guard."""
        return self.questions if self.guard is None else (*self.questions, self.guard)


def new_assessment_id() -> str:
    return secrets.token_hex(8)


def current(assessments: Iterable[Assessment], revision: int | None = None) -> list[Assessment]:
    """Of each rubric and set of judges the latest assessment, in the order of the journal.

    With a `revision`, only those of that one: another verdict, or another end state, was judged in the others.
    """
    latest: dict[tuple[str, tuple[str, ...]], Assessment] = {}
    for each in assessments:
        if revision is None or each.revision == revision:
            key = each.rubric, tuple(judge.model for judge in each.judges)
            latest.pop(key, None)
            latest[key] = each
    return list(latest.values())
