"""Combines the evaluations of a multi-step task's steps into one."""

from collections.abc import Mapping, Sequence
from math import hypot
from statistics import fmean
from typing import Literal

from seatrial.model.evaluation import (
    OUTPUT_MISSING,
    OUTPUT_UNPARSEABLE,
    ConfidenceMetadata,
    EvaluationResult,
    ValidityCheck,
)

Strategy = Literal["mean", "final"]


def combined_reward(rewards: Sequence[float], strategy: Strategy) -> float:
    """The mean reward of the steps that were judged, or the last one's."""
    return fmean(rewards if strategy == "mean" else rewards[-1:])


def combine(steps: Mapping[str, EvaluationResult], strategy: Strategy) -> EvaluationResult:
    """One evaluation of all steps that were judged: their mean reward, or the last one's.

    It can be believed as far as the steps it rests on: with `mean` all of them, with `final` the last.
    """
    every = list(steps.values())
    resting_on = every if strategy == "mean" else every[-1:]
    reward = combined_reward([step.reward for step in every], strategy)
    validity = ValidityCheck(
        output_parseable=reward > 0.0 or all(step.validity.output_parseable for step in resting_on),
        schema_valid=all(step.validity.schema_valid for step in resting_on),
        verifier_completed=all(step.validity.verifier_completed for step in resting_on),
        errors=[_of_step(name, line) for name, step in steps.items() for line in step.validity.errors],
    )
    earlier = frozenset({OUTPUT_MISSING, OUTPUT_UNPARSEABLE})  # they would explain a zero that is not theirs
    tags = [
        tag for step in every for tag in step.error_taxonomy or () if step in resting_on or tag.category not in earlier
    ]
    return EvaluationResult(
        reward=reward,
        validity=validity,
        breakdown={"steps": {name: {"reward": step.reward} for name, step in steps.items()}},
        error_taxonomy=tags or None,
        confidence=_confidence(resting_on),
    )


def _confidence(steps: Sequence[EvaluationResult]) -> ConfidenceMetadata | None:
    """How sure one may be of a mean of steps: of one, as sure as of that; of several, as their repeats tell.

    The spread of the mean is that of independent steps.
    """
    known = [step.confidence for step in steps if step.confidence]
    if len(steps) == 1 or len(known) < len(steps):
        return known[0] if len(steps) == 1 and known else None
    repeats = [each.verifier_repeats for each in known if each.verifier_repeats is not None]
    spreads = [each.verifier_reward_sd for each in known if each.verifier_reward_sd is not None]
    if len(repeats) < len(steps) or len(spreads) < len(steps):
        return None
    return ConfidenceMetadata(verifier_repeats=min(repeats), verifier_reward_sd=hypot(*spreads) / len(steps))


def _of_step(name: str, line: str) -> str:
    """A line of `validity.errors` that says which step it is about; its code stays in front."""
    code, _, message = line.partition(": ")
    return f"{code}: step {name}: {message}"
