"""The pass rate that people would have found, had they looked at every trial: the verifier's, corrected by a sample.

Two ways. Rogan and Gladen (1978) turn round how often the verifier is right about what people pass and fail. The
prediction-powered mean (Angelopoulos and others, 2023) corrects the verifier's rate by how much people differ from it
on what they saw, with the verifier counting for as much as it is worth: λ, from 0 to 1, is the one of least variance.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from seatrial.stats.diagnostic import Confusion, Reviewed, WeightedShare, effective_size
from seatrial.stats.quantiles import student_t

Judged = tuple[bool, Hashable]
"""Whether the verifier passed a trial, and the group that the trial belongs to, such as its task."""

_ADDED = 4.0
"""Values that are counted more, half of them at each end: what was never seen may still happen (Agresti and Coull)."""

_ADDED_ERRORS = 3.0
"""Errors of the verifier that are counted more, for the same reason; their range is twice as wide."""


@dataclass(frozen=True, slots=True)
class CorrectedRate:
    """A pass rate with its interval, both within 0 and 1. `reviewed` of `trials` were looked at by people.

    `tuning` is how much the verifier counts in it, None where it has no such number.
    """

    value: float
    low: float
    high: float
    level: float
    trials: int
    reviewed: int
    tuning: float | None = None


def rogan_gladen(judged: Sequence[Judged], confusion: Confusion, level: float = 0.95) -> CorrectedRate | None:
    """The rate from the verifier's rate, its recall and its specificity.

    None where people have passed or failed nothing, and where the verifier tells the two apart no better than chance.
    """
    recall, specificity = confusion.recall, confusion.specificity
    if not judged or recall is None or specificity is None:
        return None
    skill = recall.value + specificity.value - 1.0
    if skill <= 0.0:
        return None
    seen = _mean(judged)
    value = _clipped((seen + specificity.value - 1.0) / skill)
    variance = (
        _verifier_variance(judged, seen)
        + value**2 * _share_variance(recall)
        + (1.0 - value) ** 2 * _share_variance(specificity)
    )
    half = student_t(level, _freedom([group for _, group in judged])) * math.sqrt(variance) / skill
    return CorrectedRate(value, _clipped(value - half), _clipped(value + half), level, len(judged), confusion.trials)


def prediction_powered(
    judged: Sequence[Judged], reviewed: Sequence[Reviewed], level: float = 0.95
) -> CorrectedRate | None:
    """The rate from the verifier's on all trials and people's on some of them; None for fewer than two of those.

    `judged` are all trials, those that were reviewed among them.
    """
    if len(reviewed) < 2 or not judged:
        return None
    total = math.fsum(each.weight for each in reviewed)
    parts = [(each.weight / total, each) for each in reviewed]
    people = math.fsum(weight * each.people for weight, each in parts)
    verifier = math.fsum(weight * each.verifier for weight, each in parts)
    tuning = _tuning(parts, people, verifier)
    seen = _mean(judged)
    value = people + tuning * (seen - verifier)
    residuals = [
        (each.group, weight * ((each.people - people) - tuning * (each.verifier - verifier))) for weight, each in parts
    ]
    size = effective_size([each.weight for each in reviewed])
    unseen = _ADDED_ERRORS / ((size + _ADDED_ERRORS) * (size + _ADDED_ERRORS - 1.0))
    variance = _clustered(residuals) + unseen + tuning**2 * _verifier_variance(judged, seen)
    half = student_t(level, _freedom([each.group for each in reviewed])) * math.sqrt(variance)
    ends = _clipped(value - half), _clipped(value + half)
    return CorrectedRate(_clipped(value), *ends, level, len(judged), len(reviewed), tuning)


def _tuning(parts: Iterable[tuple[float, Reviewed]], people: float, verifier: float) -> float:
    """By how much people's rate goes up with the verifier's; 0 where the verifier never differs or leads astray."""
    every = list(parts)
    variance = math.fsum(weight * (each.verifier - verifier) ** 2 for weight, each in every)
    shared = math.fsum(weight * (each.verifier - verifier) * (each.people - people) for weight, each in every)
    return _clipped(shared / variance) if variance > 0.0 else 0.0


def _verifier_variance(judged: Sequence[Judged], seen: float) -> float:
    """The variance of the verifier's rate, from how it differs between groups, never quite 0."""
    number = len(judged)
    unseen = _ADDED / (4.0 * (number + _ADDED) ** 2)
    return _clustered((group, (passed - seen) / number) for passed, group in judged) + unseen


def _clustered(parts: Iterable[tuple[Hashable, float]]) -> float:
    """The sum of squares of what groups add up to. A single group says nothing of others, so its parts stand alone."""
    every = list(parts)
    groups: defaultdict[Hashable, list[float]] = defaultdict(list)
    for group, part in every:
        groups[group].append(part)
    if len(groups) == 1:
        return math.fsum(part**2 for _, part in every)
    return len(groups) / (len(groups) - 1) * math.fsum(math.fsum(each) ** 2 for each in groups.values())


def _share_variance(share: WeightedShare) -> float:
    size = share.effective + _ADDED
    moved = (share.value * share.effective + _ADDED / 2.0) / size
    return moved * (1.0 - moved) / size


def _mean(judged: Sequence[Judged]) -> float:
    return sum(passed for passed, _ in judged) / len(judged)


def _freedom(groups: Sequence[Hashable]) -> int:
    number = len(set(groups))
    return max(1, (number if number > 1 else len(groups)) - 1)


def _clipped(value: float) -> float:
    return min(1.0, max(0.0, value))
