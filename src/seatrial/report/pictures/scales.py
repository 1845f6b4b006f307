"""Scales: where on a picture a value lies, and which values are written beside its axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

_STEPS = (1.0, 2.0, 5.0, 10.0)
_NOTHING = 1e-9  # no cost and no time is smaller than this and more than none


@dataclass(frozen=True, slots=True)
class Scale:
    """From the values `low` to `high` to the places `start` to `end`. Values beyond lie at the edge."""

    low: float
    high: float
    start: float
    end: float
    kind: Literal["linear", "log"] = "linear"

    def place(self, value: float) -> float:
        """Where a value lies."""
        inside = min(self.high, max(self.low, value))
        share = (self._turned(inside) - self._turned(self.low)) / (self._turned(self.high) - self._turned(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values between both ends, some four to eight of them."""
        return _powers(self.low, self.high) if self.kind == "log" else _rounds(self.low, self.high)

    def _turned(self, value: float) -> float:
        return math.log(value) if self.kind == "log" else value


def scale_for(values: Sequence[float], start: float, end: float) -> Scale:
    """A scale that all of these values, none below 0, fit on: by powers where they are far apart."""
    least, most = min(values), max(values)
    if least > _NOTHING and most / least > 10:
        return Scale(_round_down(least), _round_up(most), start, end, "log")
    step = _step(most if most > _NOTHING else 1.0)
    return Scale(0.0, max(step, math.ceil(most / step - 1e-9) * step), start, end)


def _step(span: float) -> float:
    """A round step of which a span has some four to eight."""
    rough = span / 5
    power = 10.0 ** math.floor(math.log10(rough))
    return power * next(step for step in _STEPS if step * power >= rough * (1 - 1e-9))


def _rounds(low: float, high: float) -> list[float]:
    step = _step(high - low)
    first = math.ceil(low / step - 1e-9)
    return [index * step for index in range(first, math.floor(high / step + 1e-9) + 1)]


def _powers(low: float, high: float) -> list[float]:
    lowest, highest = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1.0, 2.0, 5.0) if highest - lowest <= 2 else (1.0,)
    every = max(1, (highest - lowest) // 6)
    found = [step * 10.0**power for power in range(lowest, highest + 1, every) for step in steps]
    return [tick for tick in found if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]


def _round_down(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return power * max(step for step in (1.0, 2.0, 5.0) if step * power <= value * (1 + 1e-9))


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return power * min(step for step in _STEPS if step * power >= value * (1 - 1e-9))
