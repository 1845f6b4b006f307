"""Means corrected for what is not known: trials without a sure reward, and verifiers that may be wrong.

`corrected_mean` gives the bounds of a mean and assumes nothing about which value is true. `confusion_of` compares a
verifier with people who reviewed some of its trials; `rogan_gladen` and `prediction_powered` estimate from that the
pass rate that people would have found everywhere.
"""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from seatrial.stats.estimates import Estimate, estimate_mean, student_t, wilson

# Bounds. A disputed trial is worth what counts or what its verifier gave elsewhere; one that failed for want of a
# machine could have been worth anything.


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


# The verifier against people. A trial stands for as many as its chance of being reviewed says (Horvitz and Thompson),
# so that what was looked at on purpose does not count for more than there is of it.


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A trial that was judged twice: by the verifier and by people. `weight` is 1 by the chance to be reviewed.

    Trials of one `group`, such as a task, are alike.
    """

    verifier: bool
    people: bool
    weight: float = 1.0
    group: Hashable = None


@dataclass(frozen=True, slots=True)
class WeightedShare:
    """A share of trials with Wilson's interval; `trials` are those that it is a share of.

    `effective` is how many trials of equal weight would say as much (Kish).
    """

    value: float
    low: float
    high: float
    level: float
    trials: int
    effective: float


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often both passed a trial, only the verifier or only people did, or neither; as counted, not weighted.

    `precision` is how often people agree with a pass of the verifier, `recall` how much of what people pass the
    verifier passes, `specificity` how much of what people fail it fails. None where there is nothing to share.
    """

    both_pass: int
    only_verifier: int
    only_people: int
    both_fail: int
    precision: WeightedShare | None
    recall: WeightedShare | None
    specificity: WeightedShare | None
    agreement: WeightedShare | None

    @property
    def trials(self) -> int:
        return self.both_pass + self.only_verifier + self.only_people + self.both_fail


def confusion_of(reviewed: Sequence[Reviewed], level: float = 0.95) -> Confusion:
    """The table of trials that both judged, with the shares that are read off it."""
    return Confusion(
        both_pass=sum(each.verifier and each.people for each in reviewed),
        only_verifier=sum(each.verifier and not each.people for each in reviewed),
        only_people=sum(each.people and not each.verifier for each in reviewed),
        both_fail=sum(not each.verifier and not each.people for each in reviewed),
        precision=weighted_share(((each.people, each.weight) for each in reviewed if each.verifier), level),
        recall=weighted_share(((each.verifier, each.weight) for each in reviewed if each.people), level),
        specificity=weighted_share(((not each.verifier, each.weight) for each in reviewed if not each.people), level),
        agreement=weighted_share(((each.verifier == each.people, each.weight) for each in reviewed), level),
    )


def weighted_share(cases: Iterable[tuple[bool, float]], level: float = 0.95) -> WeightedShare | None:
    """How much of the weight of cases is that of true ones, None where there is no case."""
    every = list(cases)
    if not every:
        return None
    total = math.fsum(weight for _, weight in every)
    value = min(1.0, math.fsum(weight for is_so, weight in every if is_so) / total)
    effective = effective_size([weight for _, weight in every])
    return WeightedShare(value, *wilson(value, effective, level), level, len(every), effective)


def effective_size(weights: Sequence[float]) -> float:
    """How many values of equal weight say as much as these."""
    return math.fsum(weights) ** 2 / math.fsum(weight**2 for weight in weights)


# Corrected pass rates. Rogan and Gladen (1978) invert how often the verifier is right about what people pass and fail.
# The prediction-powered mean (Angelopoulos and others, 2023) corrects the verifier's rate by how much people differ
# from it on what they saw, with the verifier counting for as much as it is worth: λ, from 0 to 1, is the one of least
# variance.

_MOST_LABELS = 10**6

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
    found = _powered(judged, reviewed)
    if found is None:
        return None
    half = student_t(level, found.freedom) * math.sqrt(found.variance)
    ends = _clipped(found.value - half), _clipped(found.value + half)
    return CorrectedRate(_clipped(found.value), *ends, level, len(judged), len(reviewed), found.tuning)


def labels_needed(
    judged: Sequence[Judged], reviewed: Sequence[Reviewed], width: float, level: float = 0.95
) -> int | None:
    """How many trials people have to review, drawn by lot, for a prediction-powered interval of this width.

    It is planned from how far people and the verifier differ in those that are `reviewed`. None where these are fewer
    than two, and where no number is enough because there are too few trials that the verifier judged.
    """
    found = _powered(judged, reviewed)
    if found is None or found.width(_MOST_LABELS, level) > width:
        return None
    return bisect_left(range(_MOST_LABELS), True, lo=2, key=lambda size: found.width(size, level) <= width)


@dataclass(frozen=True, slots=True)
class _Powered:
    """A prediction-powered mean of `size` labels. More labels make `of_labels` of its variance less, and no more."""

    value: float
    tuning: float
    size: float
    variance: float
    of_labels: float
    alike: float
    """So many labels say as much as one would, since those of one group are alike."""

    freedom: int
    most_freedom: int

    def width(self, size: float, level: float) -> float:
        """The interval's, with another number of labels."""
        freedom = min(self.most_freedom, max(1, round((self.freedom + 1) * size / self.size) - 1))
        rest = max(0.0, self.variance - self.of_labels - _unseen_errors(self.size / self.alike))
        variance = self.of_labels * self.size / size + rest + _unseen_errors(size / self.alike)
        return 2.0 * student_t(level, freedom) * math.sqrt(variance)


def _powered(judged: Sequence[Judged], reviewed: Sequence[Reviewed]) -> _Powered | None:
    if len(reviewed) < 2 or not judged:
        return None
    total = math.fsum(each.weight for each in reviewed)
    parts = [(each.weight / total, each) for each in reviewed]
    people = math.fsum(weight * each.people for weight, each in parts)
    verifier = math.fsum(weight * each.verifier for weight, each in parts)
    tuning = _tuning(parts, people, verifier)
    seen = _mean(judged)
    residuals = [
        (each.group, weight * ((each.people - people) - tuning * (each.verifier - verifier))) for weight, each in parts
    ]
    # Both in one sum: what people pass and what the verifier passes both depend on the task.
    verdicts = [(group, tuning * (passed - seen) / len(judged)) for passed, group in judged]
    size = effective_size([each.weight for each in reviewed])
    alone, together = math.fsum(part**2 for _, part in residuals), _clustered(residuals)
    alike = max(1.0, together / alone) if alone > 0.0 else 1.0
    labelled = _freedom([each.group for each in reviewed])
    return _Powered(
        value=people + tuning * (seen - verifier),
        tuning=tuning,
        size=size,
        variance=_clustered([*residuals, *verdicts])
        + _unseen_errors(size / alike)
        + tuning**2 * _unseen_verdicts(len(judged)),
        of_labels=alone,
        alike=alike,
        freedom=labelled,
        most_freedom=max(labelled, _freedom([group for _, group in judged])),
    )


def _unseen_errors(size: float) -> float:
    return _ADDED_ERRORS / ((size + _ADDED_ERRORS) * (size + _ADDED_ERRORS - 1.0))


def _unseen_verdicts(number: int) -> float:
    return _ADDED / (4.0 * (number + _ADDED) ** 2)


def _tuning(parts: Iterable[tuple[float, Reviewed]], people: float, verifier: float) -> float:
    """By how much people's rate goes up with the verifier's; 0 where the verifier never differs or leads astray."""
    every = list(parts)
    variance = math.fsum(weight * (each.verifier - verifier) ** 2 for weight, each in every)
    shared = math.fsum(weight * (each.verifier - verifier) * (each.people - people) for weight, each in every)
    return _clipped(shared / variance) if variance > 0.0 else 0.0


def _verifier_variance(judged: Sequence[Judged], seen: float) -> float:
    """The variance of the verifier's rate, from how it differs between groups, never quite 0."""
    number = len(judged)
    return _clustered((group, (passed - seen) / number) for passed, group in judged) + _unseen_verdicts(number)


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
