"""Several attempts at one task: would one of k have passed, would all k, and does the agent always do the same?"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import comb

from seatrial.stats.estimates import Estimate, estimate_mean

Attempts = tuple[int, int]
"""How many attempts at a task were judged, and how many of them passed."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Tasks by what became of their attempts; only those that were attempted more than once can be `flaky`."""

    tasks: int
    always: int
    never: int
    flaky: int


@lru_cache(maxsize=4096)
def pass_at_k(judged: int, passed: int, k: int) -> float | None:
    """The chance that at least one of `k` attempts, drawn from those that were judged, passed; None for too few."""
    if judged < k:
        return None
    return 1.0 - comb(judged - passed, k) / comb(judged, k)


@lru_cache(maxsize=4096)
def pass_all_k(judged: int, passed: int, k: int) -> float | None:
    """The chance that all of `k` attempts, drawn from those that were judged, passed; None for too few."""
    if judged < k:
        return None
    return comb(passed, k) / comb(judged, k)


def estimate_pass_at_k(
    tasks: Sequence[Attempts], k: int, level: float = 0.95, clusters: Sequence[Hashable] | None = None
) -> Estimate | None:
    """pass@k over those tasks that were judged k times or more, None where there is none."""
    return estimate_mean([_known(pass_at_k(*task, k)) for task in tasks], clusters, level)


def estimate_pass_all_k(
    tasks: Sequence[Attempts], k: int, level: float = 0.95, clusters: Sequence[Hashable] | None = None
) -> Estimate | None:
    """pass^k over those tasks that were judged k times or more, None where there is none."""
    return estimate_mean([_known(pass_all_k(*task, k)) for task in tasks], clusters, level)


def _known(value: float | None) -> list[float]:
    return [] if value is None else [value]


def stability(tasks: Iterable[Attempts]) -> Stability:
    """How many tasks always, never or sometimes passed; those that were never judged do not count."""
    judged = [(count, passed) for count, passed in tasks if count]
    always = sum(passed == count for count, passed in judged)
    never = sum(passed == 0 for _, passed in judged)
    return Stability(len(judged), always, never, len(judged) - always - never)
