"""How large a difference a test finds with so many tasks, and how many tasks it takes to find one.

By the normal distribution, as is usual for planning: the sd that goes in is itself a guess from earlier tasks. What
few tasks find is less: `stats.expected`.
"""

import math
from statistics import NormalDist

ALPHA = 0.05
POWER = 0.8

TOLERANCE = 1e-12
"""A p-value that is larger than a level by less than this is as large: 1 - 0.9 is a little less than 0.1."""


def found_at(alpha: float = ALPHA, power: float = POWER) -> float:
    """How many standard errors a difference must be away from 0 to be found so often; 2.80 by default."""
    normal = NormalDist()
    return normal.inv_cdf(1.0 - alpha / 2.0) + normal.inv_cdf(power)


def detectable(sd: float, tasks: float, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference that is found so often with so many tasks, whose differences have this `sd`."""
    return found_at(alpha, power) * sd / math.sqrt(tasks)


def fewest_tasks(alpha: float = ALPHA) -> int:
    """With fewer tasks nothing is ever found: all of them won is a p-value of 2 to the power of 1 - tasks."""
    return math.ceil(1.0 - math.log2(alpha + TOLERANCE))


def needed_tasks(difference: float, sd: float, alpha: float = ALPHA, power: float = POWER) -> int:
    """How many tasks it takes to find a difference so often, never fewer than can show any at all.

    Raises ValueError for no difference: none are enough.
    """
    if difference == 0.0:
        raise ValueError("the difference is 0, expected another number: no number of tasks shows that")
    return max(fewest_tasks(alpha), math.ceil((found_at(alpha, power) * sd / difference) ** 2))
