"""How long trials took: for each agent the middle half as a box, the median in it, and how far the others reach."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.report.pictures.drawing import WIDTH, element, label_room, line, linked, picture, shortened_apart, words
from seatrial.report.pictures.scales import Scale
from seatrial.report.text import format_duration

_ROW, _TOP, _LEFT, _RIGHT = 30.0, 14.0, 190.0, 100.0
_SAID = (0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 360_000)
"""Seconds that people have a word for, near enough a power of ten apart."""


@dataclass(frozen=True, slots=True)
class TimeSpread:
    """How long trials took, in seconds: the shortest, a quarter, half, three quarters, nine of ten, the longest."""

    least: float
    quarter: float
    median: float
    three_quarters: float
    nine_tenths: float
    most: float


@dataclass(frozen=True, slots=True)
class TimesRow:
    """An agent's spread; None where no time is known."""

    label: str
    spread: TimeSpread | None
    target: str


def time_spread(seconds: Sequence[float]) -> TimeSpread | None:
    """The spread of times, each but the median one that was really seen; None where there is none."""
    ordered = sorted(seconds)
    if not ordered:
        return None
    shares = (0.0, 0.25, 0.75, 0.9, 1.0)
    least, quarter, *rest = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in shares)
    return TimeSpread(least, quarter, statistics.median(ordered), *rest)


def times_picture(name: str, rows: Sequence[TimesRow]) -> str:
    """Spreads on one axis, by powers where times are far apart."""
    known = [row.spread for row in rows if row.spread]
    room = label_room((row.label for row in rows), _LEFT)
    scale = _scale(known, room)
    bottom = _TOP + _ROW * len(rows)
    parts = []
    for tick in _ticks(scale):
        x = scale.place(tick)
        parts += [line(x, _TOP, x, bottom, "grid"), words(said_time(tick), x, bottom + 16, "tick middle")]
    labels = shortened_apart([row.label for row in rows], 26)
    parts += [part for index, row in enumerate(rows) for part in _row(row, labels[index], index, scale)]
    parts.append(words("time of a trial", (scale.start + scale.end) / 2, bottom + 33, "axis middle"))
    told = "; ".join(f"{row.label}: median {format_duration(row.spread.median)}" for row in rows[:20] if row.spread)
    return picture(name, "How long trials took", told, bottom + 40, parts)


def _scale(spreads: Sequence[TimeSpread], start: float) -> Scale:
    low = max(0.01, min((each.least for each in spreads), default=0.0))
    high = max(1.0, max((each.most for each in spreads), default=1.0))
    if high / low > 10:
        return Scale(max(mark for mark in _SAID if mark <= low), high, start, WIDTH - _RIGHT, "log")
    return Scale(0.0, high, start, WIDTH - _RIGHT)


def _ticks(scale: Scale) -> list[float]:
    if scale.kind == "linear":
        return scale.ticks()
    return [mark for mark in _SAID if scale.low <= mark <= scale.high]


def said_time(seconds: float) -> str:
    """A round length of time, as it stands beside an axis."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _row(row: TimesRow, short: str, index: int, scale: Scale) -> list[str]:
    y = _TOP + _ROW * (index + 0.5)
    label = words(short, scale.start - 12, y + 4, "label end", row.label)
    spread = row.spread
    if spread is None:
        return [label, words("no time is known", scale.start + 8, y + 4, "faint")]
    left, right = scale.place(spread.quarter), scale.place(spread.three_quarters)
    middle, most = scale.place(spread.median), scale.place(spread.most)
    width = max(1.0, right - left)
    box: dict[str, str | float] = {"class": "box", "x": left, "y": y - 8, "width": width, "height": 16}
    drawn = [line(scale.place(spread.least), y, left, y, "whisker"), line(right, y, most, y, "whisker")]
    drawn += [element("rect", box), line(middle, y - 8, middle, y + 8, "median")]
    told = f"{row.label}: half within {format_duration(spread.median)}, all within {format_duration(spread.most)}"
    drawn.append(words(format_duration(spread.median), WIDTH - 90, y + 4, "value"))
    return [label, linked(row.target, told, *drawn)]
