"""A verifier against people who looked at some of the same trials: how often it is right, and in which direction.

Where trials were chosen for review with unequal chances, each stands for as many as its chance says (Horvitz and
Thompson), so that what was looked at on purpose does not count for more than there is of it.
"""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from seatrial.stats.intervals import wilson


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
        """How many trials both judged."""
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
