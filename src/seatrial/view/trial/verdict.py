"""What a trial amounts to: the outcome in words, the reason, the evaluation with its evidence, what people say."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from seatrial.model.evaluation import EvaluationResult
from seatrial.model.record import Outcome, TrialRecord
from seatrial.model.review import not_taken_back
from seatrial.report import trial as told
from seatrial.report.pictures.drawing import element
from seatrial.report.reasons import causes, remarks
from seatrial.report.text import format_reward, harmless
from seatrial.review.states import ReviewState, TrialReview, review_of
from seatrial.store.entry_facts import share_of
from seatrial.view.trial.opened import OpenedTrial

Tone = Literal["good", "mixed", "bad", "odd"]

_WORDS: dict[Outcome, tuple[str, Tone]] = {
    "pass": ("Passed", "good"),
    "partial": ("Passed in part", "mixed"),
    "fail": ("Failed", "bad"),
    "invalid_output": ("Failed: its output cannot be read", "bad"),
    "no_output": ("Failed: it left no output", "bad"),
    "verifier_error": ("Not judged: the verifier gave no verdict", "odd"),
    "infrastructure_error": ("Not judged: the machinery failed", "odd"),
    "cancelled": ("Not judged: it was cancelled", "odd"),
}

REVIEW_WORDS: dict[ReviewState, str] = {
    "open": "nobody has decided",
    "single": "one reviewer has decided",
    "agreed": "all reviewers agree",
    "needs": "reviewers disagree, and nobody has settled it",
    "adjudicated": "settled",
    "contested": "settled once, and in doubt again",
}


@dataclass(frozen=True, slots=True)
class VerdictCard:
    """The outcome in words, and why. `reward` is a dash where nothing was judged; `notes` are what one should know
    before one believes it.
    """

    outcome: Outcome
    words: str
    tone: Tone
    reward: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DimensionBar:
    """A part of the evaluation; `share` is how much of it was reached, None where it is no score. `bar` is SVG."""

    name: str
    score: str
    evidence: str
    share: float | None
    bar: Markup


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation, of the trial or of one of its steps."""

    title: str
    validity: tuple[str, ...]
    faults: tuple[str, ...]
    dimensions: tuple[DimensionBar, ...]
    tags: tuple[told.Row, ...]
    confidence: str


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict of a reviewer, and how it came about. `is_earlier`: the trial has been judged again since."""

    row: told.Row
    role: str
    is_blind: bool
    is_taken_back: bool
    is_earlier: bool


def verdict_of(trial: OpenedTrial, record: TrialRecord) -> VerdictCard:
    """What a trial amounts to, as its job counts it."""
    counted = trial.entry.outcome if trial.entry else record.outcome
    words, tone = _WORDS[counted]
    reward = format_reward(record.evaluation.reward if record.evaluation else None)
    notes = remarks(record)
    if counted != record.outcome:
        notes.append(f"counted as {counted}: the verifier of this task is broken; it said {record.outcome}")
    notes += trial.damaged_revisions()
    why = tuple(causes(record, trial.job.file.spec.model))
    return VerdictCard(counted, words, tone, "-" if tone == "odd" else reward, why, tuple(notes))


def evaluations_of(record: TrialRecord) -> list[Evaluated]:
    """The evaluation of a trial, then those of its steps."""
    own = [("", record.evaluation), *((step.name, step.evaluation) for step in record.steps)]
    return [_evaluated(title, evaluation) for title, evaluation in own if evaluation]


def _evaluated(title: str, evaluation: EvaluationResult) -> Evaluated:
    flags, *faults = told.validity_lines(evaluation)
    return Evaluated(
        title,
        tuple(flags.split(", ")),
        tuple(faults),
        tuple(_dimensions(evaluation)),
        tuple(told.tag_rows(evaluation)),
        told.confidence(evaluation),
    )


def _dimensions(evaluation: EvaluationResult) -> Iterator[DimensionBar]:
    shares = {harmless(name): share_of(entry) for name, entry in (evaluation.breakdown or {}).items()}
    for name, score, evidence in told.breakdown_rows(evaluation):
        share = shares.get(name)
        yield DimensionBar(name, score, evidence, share, Markup() if share is None else share_bar(share))


def share_bar(share: float) -> Markup:
    """A share between 0 and 1 as a bar, in SVG; the number stands beside it, so it is nothing to a screen reader."""
    whole: dict[str, str | float] = {"class": "bar-whole", "width": 100.0, "height": 8.0, "rx": 2.0}
    part: dict[str, str | float] = {"class": "bar-part", "width": 100.0 * share, "height": 8.0, "rx": 2.0}
    frame = {"class": "share", "viewBox": "0 0 100 8", "preserveAspectRatio": "none", "aria-hidden": "true"}
    drawn = element("svg", frame, element("rect", whole), element("rect", part))
    return Markup(drawn)  # noqa: S704 - our own SVG, of numbers


def review_state(trial: OpenedTrial) -> TrialReview:
    """What all verdicts on a trial amount to."""
    return review_of(trial.trial_id, trial.reviews)


def opinions_of(trial: OpenedTrial) -> list[Opinion]:
    """What reviewers said, in the order of the journal, with what they took back."""
    standing = {each.key for each in not_taken_back(trial.reviews)}
    newest = trial.record.revision if trial.record else 0
    return [
        Opinion(
            told.annotation_rows([each.annotation])[0],
            each.role,
            each.blind,
            is_taken_back=each.key not in standing,
            is_earlier=each.context is not None and each.context.revision < newest,
        )
        for each in trial.reviews
        if each.annotation
    ]
