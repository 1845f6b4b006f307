"""How far people agree who judged the same items, as such and beyond what chance would make of it.

Every measure is one minus the disagreement seen by the disagreement that chance would bring. It is None where that has
no meaning: fewer than two items that two people judged, or no disagreement to be expected at all, as when everybody
always says the same. `rater_agreement` reports all measures that apply, with intervals. Formulas are those of Cohen
(1960, 1968), Fleiss (1971), Krippendorff (2011) and Gwet (2008).
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Literal

from seatrial.stats.estimates import wilson

Label = str | float
Ratings = Sequence[Mapping[str, Label]]
"""Who said what of each item; those who said nothing of it are not in it."""

Verdicts = tuple[Label, ...]
Table = Mapping[Verdicts, float]
"""How many items got the same labels. For Cohen's measure these are that of the first rater, then that of the second;
for all others they are in order, whoever gave them.
"""

Scale = Literal["nominal", "ordinal", "interval"]
Weights = Literal["none", "linear", "quadratic"]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """How much people disagree, and how much they would by chance; for labels without order, both are shares."""

    observed: float
    expected: float

    @property
    def agreement(self) -> float | None:
        """One where nobody disagrees, 0 where chance would do as well, below that where it would do better."""
        return 1.0 - self.observed / self.expected if self.expected > 0.0 else None


def items_of(ratings: Ratings) -> Counter[Verdicts]:
    """Items without the names of those who judged them; those that nobody did are left out."""
    return Counter(tuple(sorted(said.values(), key=_order)) for said in ratings if said)


def pairs_of(ratings: Ratings, first: str, second: str) -> Counter[Verdicts]:
    """What two people said of the items that both of them judged."""
    return Counter((said[first], said[second]) for said in ratings if first in said and second in said)


def percent(items: Table) -> Disagreement | None:
    """The share of pairs of verdicts that are the same, averaged over items; chance is not taken into account."""
    shared = _shared(items)
    return Disagreement(_pair_disagreement(shared), 1.0) if shared else None


def cohen(pairs: Table, weights: Weights = "none") -> Disagreement | None:
    """Cohen's κ of two people. With weights, labels are numbers and a larger difference counts for more."""
    total = math.fsum(pairs.values())
    if total < 2:
        return None
    rows, columns = _margin(pairs, 0), _margin(pairs, 1)
    seen = math.fsum(count * _weighted(one, other, weights) for (one, other), count in pairs.items()) / total
    chance = math.fsum(rows[one] * columns[other] * _weighted(one, other, weights) for one in rows for other in columns)
    return Disagreement(seen, chance / total**2)


def fleiss(items: Table) -> Disagreement | None:
    """Fleiss' κ, for items that were all judged by the same number of people; None where they were not."""
    shared = _shared(items)
    if shared is None or len({len(labels) for labels in items}) > 1:
        return None
    shares = _shares(shared)
    return Disagreement(_pair_disagreement(shared), 1.0 - math.fsum(share**2 for share in shares.values()))


def krippendorff(items: Table, scale: Scale = "nominal") -> Disagreement | None:
    """Krippendorff's alpha: any number of people, and not all of them need have judged every item.

    On the ordinal and the interval scale labels are numbers.
    """
    shared = _shared(items)
    if shared is None:
        return None
    values: dict[Label, float] = {}
    for labels, count in shared.items():
        for label in labels:
            values[label] = values.get(label, 0.0) + count
    distances = _distances(values, scale)
    total = math.fsum(values.values())
    seen = math.fsum(count * _distance_within(labels, distances) for labels, count in shared.items())
    chance = math.fsum(values[one] * values[other] * apart for (one, other), apart in distances.items())
    return Disagreement(seen / total, chance / (total * (total - 1.0)))


def gwet(items: Table, labels: Sequence[Label] = ()) -> Disagreement | None:
    """Gwet's AC1, which stays in its senses where almost all items get the same label.

    `labels` are those that people could choose from, where they may not all have been used.
    """
    shared, known = _shared(items), {*labels, *(label for said in items for label in said)}
    if shared is None or len(known) < 2:
        return None
    shares = _shares(items).values()
    chance = math.fsum(share * (1.0 - share) for share in shares) / (len(known) - 1)
    return Disagreement(_pair_disagreement(shared), 1.0 - chance)


def largest_share(items: Table) -> float | None:
    """How much of what was said is the most frequent label, None where nothing was said."""
    return max(_shares(items).values(), default=None)


def _order(label: Label) -> tuple[str, Label]:
    return ("text" if isinstance(label, str) else "number"), label


def _shared(items: Table) -> Table | None:
    """The items that two people or more judged, None where there are not two of them."""
    shared = {labels: count for labels, count in items.items() if len(labels) > 1 and count}
    return shared if math.fsum(shared.values()) >= 2 else None


def _pair_disagreement(shared: Table) -> float:
    total = math.fsum(shared.values())
    return math.fsum(count * _differing(labels) for labels, count in shared.items()) / total


def _differing(labels: Sequence[Label]) -> float:
    """The share of pairs of an item's labels that are not the same."""
    number = len(labels)
    same = sum(count * (count - 1) for count in Counter(labels).values())
    return 1.0 - same / (number * (number - 1))


def _shares(items: Table) -> dict[Label, float]:
    """How often each label was given, with every item counting the same."""
    total = math.fsum(items.values())
    shares: dict[Label, list[float]] = {}
    for labels, count in items.items():
        for label, times in Counter(labels).items():
            shares.setdefault(label, []).append(count * times / len(labels) / total)
    return {label: math.fsum(parts) for label, parts in shares.items()}


def _margin(pairs: Table, side: Literal[0, 1]) -> dict[Label, float]:
    found: dict[Label, float] = {}
    for labels, count in pairs.items():
        found[labels[side]] = found.get(labels[side], 0.0) + count
    return found


def _weighted(one: Label, other: Label, weights: Weights) -> float:
    if weights == "none":
        return float(one != other)
    apart = abs(_number(one) - _number(other))
    return apart if weights == "linear" else apart**2


def _distances(values: Mapping[Label, float], scale: Scale) -> dict[tuple[Label, Label], float]:
    """How far two labels are apart; on the ordinal scale that depends on how many were given between them."""
    every = [(one, other) for one in values for other in values if one != other]
    if scale == "nominal":
        return dict.fromkeys(every, 1.0)
    if scale == "interval":
        return {(one, other): (_number(one) - _number(other)) ** 2 for one, other in every}
    return {(one, other): _ranks_between(values, one, other) ** 2 for one, other in every}


def _ranks_between(values: Mapping[Label, float], one: Label, other: Label) -> float:
    low, high = sorted((_number(one), _number(other)))
    between = math.fsum(count for label, count in values.items() if low <= _number(label) <= high)
    return between - (values[one] + values[other]) / 2.0


def _distance_within(labels: Sequence[Label], distances: Mapping[tuple[Label, Label], float]) -> float:
    counts = Counter(labels)
    apart = (counts[one] * counts[other] * distances[one, other] for one in counts for other in counts if one != other)
    return math.fsum(apart) / (len(labels) - 1)


def _number(label: Label) -> float:
    if isinstance(label, str):
        raise TypeError(f"the label is {label!r}, expected a number: only those have an order and distances")
    return float(label)


# Intervals: a bootstrap over items, with a seed so that it can be repeated. Where nobody disagreed, every resample
# agrees too, and the interval would have no width. Its lower end is then what Wilson's interval leaves open: the share
# of disagreement that so many items may still hide. Likewise the upper end, where everybody disagreed about every item.

RESAMPLES = 1000
_DEFINED = 0.8
"""Where fewer of the resamples have a value, those that do are a selection, and there is no interval."""

_NOTHING = 1e-9
"""A width that is only the rounding of numbers."""

Measure = Callable[[Table], Disagreement | None]


@dataclass(frozen=True, slots=True)
class AgreementEstimate:
    """A measure of agreement over items, with its interval; `low` and `high` are None where there are too few."""

    value: float
    low: float | None
    high: float | None
    level: float
    items: int

    @property
    def width(self) -> float | None:
        return None if self.low is None or self.high is None else self.high - self.low


def estimate_agreement(
    measure: Measure, table: Mapping[Verdicts, int], *, level: float = 0.95, seed: int = 0
) -> AgreementEstimate | None:
    """The measure of a table that counts items of each kind, with its interval; None where it has no value."""
    found = measure({kind: float(count) for kind, count in table.items()})
    value = found.agreement if found else None
    if found is None or value is None:
        return None
    items = sum(table.values())
    hidden = (1.0 - wilson(1.0, items, level)[0]) / found.expected
    if found.observed == 0.0:
        return AgreementEstimate(value, max(-1.0, 1.0 - hidden), value, level, items)
    low, high = _percentiles(_resampled(measure, table, seed), level)
    if low is not None and high is not None and high - low < _NOTHING:
        high = min(1.0, high + hidden)
    return AgreementEstimate(value, low, high, level, items)


def _resampled(measure: Measure, table: Mapping[Verdicts, int], seed: int) -> list[float]:
    """The values of as many tables of the same size, drawn from the items with replacement."""
    import numpy as np  # noqa: PLC0415 - slow to import, and only intervals need it

    kinds = sorted(table, key=repr)  # so that neither the order of trials nor that of a set matters
    counts = np.array([table[kind] for kind in kinds])
    size = int(counts.sum())
    drawn = np.random.default_rng(seed).multinomial(size, counts / size, RESAMPLES)
    found = (measure(dict(zip(kinds, row, strict=True))) for row in drawn.astype(float).tolist())
    values = (each.agreement if each else None for each in found)
    return [value for value in values if value is not None]


def _percentiles(values: list[float], level: float) -> tuple[float | None, float | None]:
    if len(values) < _DEFINED * RESAMPLES:
        return None, None
    import numpy as np  # noqa: PLC0415 - as above

    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return max(-1.0, float(low)), min(1.0, float(high))


# Reports. The measure to look at first is Cohen's κ for two raters, Fleiss' κ for a fixed number, and Krippendorff's
# alpha where some judged more than others. All fall to 0 where almost every item gets the same label, however well
# raters agree; there it is Gwet's AC1.

Metric = Literal["percent", "cohen_kappa", "fleiss_kappa", "krippendorff_alpha", "gwet_ac1"]

ONE_SIDED = 0.9
"""From this share of one label on, measures that are corrected for chance by margins say little."""


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far raters agree. `measures` has an entry for each that applies, None where it has no value.

    `shared` counts the items that two raters or more judged, all of which are in the measures. `headline` is the
    measure to look at first, None where none can be had, and `reason` says why.
    """

    raters: tuple[str, ...]
    items: int
    shared: int
    measures: Mapping[Metric, AgreementEstimate | None]
    headline: Metric | None
    reason: str

    @property
    def first(self) -> AgreementEstimate | None:
        """The measure to look at first."""
        return self.measures[self.headline] if self.headline else None


@dataclass(frozen=True, slots=True)
class PairAgreement:
    """Two raters on the items that both of them judged; the numbers are None for fewer than two items."""

    first: str
    second: str
    items: int
    percent: float | None
    kappa: float | None


def rater_agreement(
    ratings: Ratings, *, labels: Sequence[Label] = (), level: float = 0.95, seed: int = 0
) -> RaterAgreement:
    """All measures for ratings without order; `labels` are those that raters could choose from."""
    shared = [said for said in ratings if len(said) > 1]
    raters = sorted({rater for said in shared for rater in said})
    everyone = tuple(sorted({rater for said in ratings for rater in said}))
    items = items_of(shared)
    measures = _measures(shared, raters, labels, level=level, seed=seed)
    headline, reason = _chosen(items, raters)
    if headline and measures[headline] is None:
        headline, reason = None, "everybody always said the same of every item, so that chance cannot be told from it"
    judged = sum(bool(said) for said in ratings)
    return RaterAgreement(everyone, judged, len(shared), measures, headline, reason)


def pair_agreements(ratings: Ratings) -> list[PairAgreement]:
    """Every two raters that judged an item in common."""
    raters = sorted({rater for said in ratings for rater in said})
    tables = ((first, second, pairs_of(ratings, first, second)) for first, second in combinations(raters, 2))
    return [_pair(first, second, table) for first, second, table in tables if table]


def _pair(first: str, second: str, table: Counter[Verdicts]) -> PairAgreement:
    same, kappa = percent(table), cohen(table)
    return PairAgreement(
        first, second, table.total(), same.agreement if same else None, kappa.agreement if kappa else None
    )


def _measures(
    shared: Ratings, raters: Sequence[str], labels: Sequence[Label], *, level: float, seed: int
) -> dict[Metric, AgreementEstimate | None]:
    items = items_of(shared)
    chosen: list[tuple[Metric, Measure]] = [("percent", percent)]
    if _is_fixed(items):
        chosen.append(("fleiss_kappa", fleiss))
    chosen += [("krippendorff_alpha", krippendorff), ("gwet_ac1", partial(gwet, labels=labels))]
    measures = {name: estimate_agreement(measure, items, level=level, seed=seed) for name, measure in chosen}
    if len(raters) == 2:
        pairs = pairs_of(shared, *raters)
        measures["cohen_kappa"] = estimate_agreement(cohen, pairs, level=level, seed=seed)
    return measures


def _is_fixed(items: Table) -> bool:
    return len({len(labels) for labels in items}) == 1


def _chosen(items: Counter[Verdicts], raters: Sequence[str]) -> tuple[Metric | None, str]:
    if items.total() < 2:
        return None, f"it takes two items that two raters judged, found {items.total()}"
    if (share := largest_share(items) or 0.0) >= ONE_SIDED:
        percents = 100 if share == 1.0 else min(99, round(100.0 * share))
        return "gwet_ac1", f"{percents}% of what was said is the same, where measures by margins say little"
    if len(raters) == 2:
        return "cohen_kappa", "there are two raters"
    if _is_fixed(items):
        number = len(next(iter(items)))
        return "fleiss_kappa", f"every item that was judged more than once has {number} ratings"
    return "krippendorff_alpha", "not all items have equally many ratings"
