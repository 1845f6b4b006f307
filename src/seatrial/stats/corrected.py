"""A mean where some rewards are not known for sure: the lowest and the highest it can be.

A disputed trial is worth what counts or what its verifier gave elsewhere; one that failed for want of a machine could
have been worth anything. Nothing is assumed about which of it is true.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from seatrial.stats.estimates import Estimate, estimate_mean


@dataclass(frozen=True, slots=True)
class Possible:
    """The least and the most a trial can be worth; the same for one that is sure."""

    least: float
    most: float


FAILED = Possible(0.0, 1.0)
"""A trial without a verdict."""


@dataclass(frozen=True, slots=True)
class CorrectedMean:
    """The mean over tasks if all that is not sure is worth least, and if it is worth most, each with its interval.

    From `lowest.low` to `highest.high` is where the true mean lies whatever became of the `unsure` trials.
    """

    lowest: Estimate
    highest: Estimate
    trials: int
    unsure: int


@lru_cache(maxsize=1024)  # most rewards are one of a few
def known(reward: float, believed: float | None = None) -> Possible:
    """A trial with a verdict; `believed` is the other one if it is disputed."""
    return Possible(min(reward, believed), max(reward, believed)) if believed is not None else Possible(reward, reward)


def corrected_mean(
    tasks: Sequence[Sequence[Possible]], clusters: Sequence[Hashable] | None = None, level: float = 0.95
) -> CorrectedMean | None:
    """Both means of trials, given task by task; None where there is no trial."""
    unsure = sum([trial.least != trial.most for task in tasks for trial in task])
    lowest = estimate_mean([[trial.least for trial in task] for task in tasks], clusters, level)
    highest = estimate_mean([[trial.most for trial in task] for task in tasks], clusters, level) if unsure else lowest
    if lowest is None or highest is None:
        return None
    return CorrectedMean(lowest, highest, lowest.values, unsure)
