"""How sure one may be of a mean of rewards, or of a share: confidence intervals that hold for few trials too."""

import math
from statistics import NormalDist


def wilson(mean: float, count: float, level: float = 0.95) -> tuple[float, float]:
    """The Wilson score interval of a mean of `count` values between 0 and 1: `(low, high)` with low ≤ mean ≤ high.

    For values that are 0 or 1 this is the textbook interval of a proportion. For partial rewards it is conservative: of
    all distributions on [0, 1] with the same mean, the one on 0 and 1 alone has the largest variance, and that is the
    variance used here. Values are taken to be independent of each other; where they are not, `count` is how many
    independent ones say as much, and need not be whole.

    Raises ValueError when the mean is not in [0, 1], nothing was counted, or the level is not between 0 and 1.
    """
    _check(mean, count, level)
    squared = NormalDist().inv_cdf((1.0 - level) / 2.0) ** 2
    low, high = _lower(mean, count, squared), 1.0 - _lower(1.0 - mean, count, squared)
    return min(low, mean), max(high, mean)  # rounding may put a bound a hair on the wrong side


def _lower(mean: float, count: float, squared: float) -> float:
    """The lower bound, by the product of both: their difference would lose every digit where the mean is next to 0."""
    half = math.sqrt(squared * (mean * (1.0 - mean) * count + squared / 4.0))
    upper = mean * count + squared / 2.0 + half
    return count * mean * mean / upper if mean else 0.0


def _check(mean: float, count: float, level: float) -> None:
    if not 0.0 <= mean <= 1.0:
        raise ValueError(f"the mean is {mean}, expected a number from 0 to 1")
    if not 0.0 < count < math.inf:
        raise ValueError(f"the count is {count}, expected more than 0: there is no interval for no values")
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level is {level}, expected a number between 0 and 1, such as 0.95")
