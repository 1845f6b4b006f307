"""A gate for CI: is the second arm not worse than the first by more than a margin?

It is *worse* only when the whole interval of the difference lies below minus the margin, and *not worse* only when the
whole interval lies above. Anything else is inconclusive, which says how many tasks would decide it.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from seatrial.analysis.comparison import Comparison
from seatrial.stats.expected import needed_for_margin, sample_of

_MOST_TASKS = 10_000_000
"""Nobody has more; what takes more is at the margin for all that can be seen."""

GateVerdict = Literal["not worse", "worse", "inconclusive"]


@dataclass(frozen=True, slots=True)
class GateResult:
    """What a gate says. `needed` is how many tasks would decide it, None where it is decided or none would."""

    verdict: GateVerdict
    margin: float
    needed: int | None = None


def judge_gate(comparison: Comparison, margin: float) -> GateResult:
    """Whether the second arm is worse than the first by more than the margin."""
    paired = comparison.paired
    if paired is None:
        return GateResult("inconclusive", margin)
    if paired.low >= -margin:
        return GateResult("not worse", margin)
    if paired.high < -margin:
        return GateResult("worse", margin)
    return GateResult("inconclusive", margin, _needed(comparison, paired.difference, margin, 1.0 - paired.level))


def worst_verdict(results: Iterable[GateResult]) -> GateVerdict:
    """What several gates amount to: all of them have to be passed."""
    found = {result.verdict for result in results}
    if "worse" in found:
        return "worse"
    return "inconclusive" if "inconclusive" in found else "not worse"


def _needed(comparison: Comparison, difference: float, margin: float, alpha: float) -> int | None:
    """How many tasks like these decide it four times out of five, if the difference is as it was seen."""
    pairs = comparison.pairs
    sample = sample_of([pair.difference for pair in pairs], comparison.clusters_of(pairs))
    ratio = needed_for_margin(sample, difference, margin, alpha)
    needed = None if ratio is None else max(math.ceil(ratio * len(pairs)), len(pairs) + 1)
    return None if needed is None or needed > _MOST_TASKS else needed
