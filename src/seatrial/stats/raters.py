"""Everything that can be said of how far raters agree, and which of the measures to look at first.

For two raters that is Cohen's κ, for a fixed number Fleiss' κ, and Krippendorff's alpha where some judged more than
others did. All of them fall to 0 where almost every item gets the same label, however well raters agree; there it is
Gwet's AC1.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from seatrial.stats.agreement import (
    Disagreement,
    Label,
    Ratings,
    Table,
    Verdicts,
    cohen,
    fleiss,
    gwet,
    items_of,
    krippendorff,
    largest_share,
    pairs_of,
    percent,
)
from seatrial.stats.resampling import AgreementEstimate, estimate_agreement

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
    measures = _measures(shared, raters, labels, (level, seed))
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
    shared: Ratings, raters: Sequence[str], labels: Sequence[Label], sureness: tuple[float, int]
) -> dict[Metric, AgreementEstimate | None]:
    level, seed = sureness
    items = items_of(shared)

    def ac1(table: Table) -> Disagreement | None:
        return gwet(table, labels)

    chosen: list[tuple[Metric, Callable[[Table], Disagreement | None]]] = [("percent", percent)]
    if _is_fixed(items):
        chosen.append(("fleiss_kappa", fleiss))
    chosen += [("krippendorff_alpha", krippendorff), ("gwet_ac1", ac1)]
    measures = {name: estimate_agreement(measure, items, level=level, seed=seed) for name, measure in chosen}
    if len(raters) == 2:
        pairs = pairs_of(shared, *raters)
        measures["cohen_kappa"] = estimate_agreement(_kappa, pairs, level=level, seed=seed)
    return measures


def _kappa(pairs: Table) -> Disagreement | None:
    return cohen(pairs)


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
