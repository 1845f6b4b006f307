"""Sequences of states: how often one follows another, how alike two sequences are, and whether that may be chance.

A likeness by itself means nothing: two long sequences of mostly one state are alike whatever their order. So it comes
with a p-value, for which the same states are put into random orders.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

DRAWS = 199
"""So many random orders give p-values down to 0.005."""

Row = tuple[float, ...] | None
"""The shares of the states that follow one state; None for a state that nothing follows."""


def transitions(sequences: Sequence[Sequence[str]], states: Sequence[str]) -> tuple[Row, ...]:
    """A row for each state: which share of what follows it is each state. Rows sum to 1, or are None."""
    counts = Counter(pair for each in sequences for pair in pairwise(each))
    rows = ([counts[state, after] for after in states] for state in states)
    return tuple(tuple(count / sum(row) for count in row) if sum(row) else None for row in rows)


def cosine(one: Sequence[Row], other: Sequence[Row]) -> float | None:
    """How alike two matrices are, from 0 to 1; None where one of them has no transition."""
    size = max(map(len, (*filter(None, one), *filter(None, other))), default=0)
    flat = [[value for row in matrix for value in row or [0.0] * size] for matrix in (one, other)]
    norms = [math.sqrt(math.fsum(value**2 for value in values)) for values in flat]
    if not all(norms):
        return None
    return min(1.0, math.fsum(a * b for a, b in zip(*flat, strict=True)) / (norms[0] * norms[1]))


def levenshtein(one: Sequence[str], other: Sequence[str]) -> int:
    """The least number of states to add, remove or replace. All rows of a column at once, as bits (Myers 1999)."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for at, state in enumerate(one):
        places[state] = places.get(state, 0) | 1 << at
    all_, last = (1 << len(one)) - 1, 1 << len(one) - 1
    up, down, distance = all_, 0, len(one)
    for state in other:
        same = places.get(state, 0)
        diagonal = (((same & up) + up) ^ up) | same | down
        right, left = (down | ~(diagonal | up)) & all_, up & diagonal
        distance += bool(right & last) - bool(left & last)
        right, left = (right << 1 | 1) & all_, (left << 1) & all_
        up, down = (left | ~((same | down) | right)) & all_, right & (same | down)
    return distance


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike a sequence and some others are, and how often a random order of its states is at least as alike."""

    others: int
    cosine: float | None
    """Of its matrix and that of all others together."""
    cosine_p: float | None
    distance: float
    """The mean Levenshtein distance to the others."""
    normalised: float
    """The same, each divided by the length of the longer one: 0 to 1."""
    distance_p: float


def likeness(
    sequence: Sequence[str], others: Sequence[Sequence[str]], states: Sequence[str], seed: int = 0, draws: int = DRAWS
) -> Likeness | None:
    """Compare a sequence with others, which do not contain it; None where there is nothing to compare.

    The order of the others does not matter, and every order of the same states meets the same random orders.
    """
    if not sequence or not others:
        return None
    together = transitions(others, states)

    def alike(order: Sequence[str]) -> tuple[float | None, float, float]:
        distances = [levenshtein(order, other) for other in others]
        longest = [max(len(order), len(other)) for other in others]
        shares = [distance / length for distance, length in zip(distances, longest, strict=True)]
        return cosine(transitions([order], states), together), fmean(distances), fmean(shares)

    found, distance, share = alike(sequence)
    drawn, order = random.Random(seed), sorted(sequence)  # noqa: S311 - no secret
    closer = nearer = 1
    for _ in range(draws):
        drawn.shuffle(order)
        by_chance, chance_distance, _ = alike(order)
        closer += found is not None and by_chance is not None and by_chance >= found - 1e-12
        nearer += chance_distance <= distance + 1e-12
    cosine_p = None if found is None else closer / (draws + 1)
    return Likeness(len(others), found, cosine_p, distance, share, nearer / (draws + 1))
