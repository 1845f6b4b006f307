"""How sure one may be of a measure of agreement: a bootstrap over items, with a seed, so that it can be made again.

Where nobody disagreed, every resample says so too, and the interval would have no width, however few items there are.
Its lower end is then what Wilson's interval leaves open: the share of disagreement that so many items may still hide.
So it is with the upper end, where everybody disagreed in the same way about every item.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from seatrial.stats.agreement import Disagreement, Table, Verdicts
from seatrial.stats.intervals import wilson

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
        """How wide the interval is."""
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
    import numpy as np  # noqa: PLC0415

    low, high = np.quantile(values, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return max(-1.0, float(low)), min(1.0, float(high))
