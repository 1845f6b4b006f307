"""The rubric scorer for Python callers. The arithmetic is the verifier kit's, so both always agree."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from seatrial import verifier_kit as kit
from seatrial.errors import RubricError
from seatrial.model.base import Fraction01, JsonObject, StrictModel

Strategy = Literal["weighted_mean", "min", "all_pass", "any_pass", "threshold", "geometric_mean"]
Dimension = kit.Dimension


class RubricResult(StrictModel):
    """The rolled-up reward, and the dimensions as a breakdown."""

    reward: Fraction01
    strategy: Strategy
    breakdown: JsonObject
    threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None


def score_rubric(
    dimensions: Sequence[Dimension],
    strategy: Strategy = "weighted_mean",
    *,
    threshold: float = 0.5,
    names: Iterable[str] | None = None,
) -> RubricResult:
    """Roll dimensions up into one reward in [0, 1], rounded to 4 decimals.

    Raises RubricError for unknown, missing or duplicate dimensions, numbers that are not finite, a max_score of 0 or
    less, negative or all-zero weights, and unknown strategies.
    """
    try:
        reward = kit.roll_up(dimensions, strategy, threshold=threshold, names=names)
    except kit.KitError as error:
        raise RubricError(error.code, str(error)) from None
    return RubricResult(
        reward=reward,
        strategy=strategy,
        breakdown=kit.details_of(dimensions),
        threshold=threshold if strategy == "threshold" else None,
    )
