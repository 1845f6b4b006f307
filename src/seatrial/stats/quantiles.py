"""Quantiles of Student's distribution without scipy: a summary needs one, and scipy takes 0.3 s and 50 MB to load."""

import math
from functools import lru_cache
from statistics import NormalDist

SUREST = 0.999_999_9
"""The highest level that is asked for: beyond, an interval is everything, and soon no float has its quantile."""

_SERIES = 400
"""Up to so many degrees of freedom the distribution is summed; beyond, its expansion is exact to 1e-12."""


@lru_cache(maxsize=256)
def student_t(level: float, freedom: int) -> float:
    """The t with `level` of the distribution between -t and t. Raises ValueError for no degree of freedom."""
    if freedom < 1:
        raise ValueError(f"there are {freedom} degrees of freedom, expected at least 1")
    guess = _expanded(NormalDist().inv_cdf((1.0 + level) / 2.0), freedom)
    if freedom > _SERIES:
        return guess
    if freedom == 1:
        return math.tan(math.pi * level / 2.0)
    low, high = 0.0, 2.0 * guess + 1.0
    while _within(high, freedom) < level:
        low, high = high, 2.0 * high
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if _within(middle, freedom) < level else (low, middle)
    return high


def _expanded(z: float, freedom: int) -> float:
    """Cornish and Fisher's expansion (Abramowitz and Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4.0,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96.0,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384.0,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160.0,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, start=1))


def _within(t: float, freedom: int) -> float:
    """The share of the distribution between -t and t, from 2 degrees of freedom on (ibid. 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine, sine = math.cos(angle), math.sin(angle)
    if freedom % 2 == 0:
        return sine * _summed(1.0, cosine, range(1, freedom - 1, 2))
    return 2.0 / math.pi * (angle + sine * _summed(cosine, cosine, range(2, freedom - 1, 2)))


def _summed(first: float, cosine: float, odds: range) -> float:
    total = term = first
    for number in odds:
        term *= cosine * cosine * number / (number + 1)
        total += term
    return total
