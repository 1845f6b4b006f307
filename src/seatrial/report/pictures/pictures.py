"""Where two agents differ: a line for each task, right where the second is better, left where it is worse."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.model.outcome import format_mean
from seatrial.report.pictures.drawing import (
    LETTER,
    WIDTH,
    Scale,
    element,
    label_room,
    line,
    linked,
    mark,
    number,
    picture,
    shortened_apart,
    words,
)
from seatrial.report.text import format_duration

_ROW, _TOP, _LEFT, _RIGHT = 20.0, 30.0, 230.0, 24.0


@dataclass(frozen=True, slots=True)
class FlipRow:
    """A task, and by how much the second agent is better there."""

    task: str
    first: float
    second: float
    target: str


def flips_picture(name: str, first: str, second: str, rows: Sequence[FlipRow]) -> str:
    """Differences by task, in the order of the rows."""
    scale = Scale(-1.0, 1.0, label_room((row.task for row in rows), _LEFT), WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(rows)
    left, right = shortened_apart([first, second], 24)
    parts = [
        words(f"← {left} better", scale.place(0) - 10, _TOP - 12, "axis end", first),
        words(f"{right} better →", scale.place(0) + 10, _TOP - 12, "axis", second),
    ]
    for tick in scale.ticks():
        x = scale.place(tick)
        parts += [line(x, _TOP, x, bottom, "zero" if tick == 0 else "grid")]
        parts += [words(f"{100 * tick:+.0f}" if tick else "0", x, bottom + 16, "tick middle")]
    tasks = shortened_apart([row.task for row in rows], 32)
    parts += [part for index, row in enumerate(rows) for part in _row(row, tasks[index], index, scale)]
    parts.append(words("points of reward", (scale.start + scale.end) / 2, bottom + 33, "axis middle"))
    told = "; ".join(f"{row.task}: {format_mean(row.first)} to {format_mean(row.second)}" for row in rows[:20])
    return picture(name, f"Tasks at which {first} and {second} differ", told, bottom + 40, parts)


def _row(row: FlipRow, short: str, index: int, scale: Scale) -> list[str]:
    y = _TOP + _ROW * (index + 0.5)
    end, won = scale.place(row.second - row.first), row.second > row.first
    side = 5.0 if won else -5.0
    points = " ".join(
        f"{number(x)},{number(at)}" for x, at in ((end + side, y), (end - side, y - 5), (end - side, y + 5))
    )
    drawn = [line(scale.place(0), y, end, y, "stem"), element("polygon", {"class": "tip", "points": points})]
    told = f"{row.task}: {format_mean(row.first)} to {format_mean(row.second)}"
    both = element("g", {"class": "won" if won else "lost"}, *drawn)
    label = words(short, scale.start - 12, y + 4, "label end", row.task)
    return [label, linked(row.target, told, both)]


# The forest plot: means with their intervals below each other, on one axis from 0 to 1.


_FOREST_ROW, _FOREST_TOP, _FOREST_LEFT, _FOREST_RIGHT = 30.0, 14.0, 190.0, 150.0


@dataclass(frozen=True, slots=True)
class ForestRow:
    """One mean with its interval; all None where nothing was judged. `target` leads to its trials."""

    label: str
    value: float | None
    low: float
    high: float
    told: str
    target: str


def forest_picture(name: str, rows: Sequence[ForestRow]) -> str:
    """Means with intervals, the first row on top."""
    scale = Scale(0.0, 1.0, label_room((row.label for row in rows), _FOREST_LEFT), WIDTH - _FOREST_RIGHT)
    bottom = _FOREST_TOP + _FOREST_ROW * len(rows)
    labels = shortened_apart([row.label for row in rows], 26)
    drawn = (part for index, row in enumerate(rows) for part in _forest_row(row, labels[index], index, scale))
    parts = [*_axis(scale, bottom), *drawn]
    told = "; ".join(f"{row.label}: {row.told}" for row in rows[:20])
    return picture(name, "Mean rewards with their intervals", told, bottom + 40, parts)


def _axis(scale: Scale, bottom: float) -> list[str]:
    parts = []
    for tick in scale.ticks():
        x = scale.place(tick)
        parts += [line(x, _FOREST_TOP, x, bottom, "grid"), words(f"{tick:g}", x, bottom + 16, "tick middle")]
    return [*parts, words("mean reward over tasks", (scale.start + scale.end) / 2, bottom + 33, "axis middle")]


def _forest_row(row: ForestRow, short: str, index: int, scale: Scale) -> list[str]:
    y = _FOREST_TOP + _FOREST_ROW * (index + 0.5)
    label = words(short, scale.start - 12, y + 4, "label end", row.label)
    if row.value is None:
        return [label, words("nothing was judged", scale.start + 8, y + 4, "faint")]
    low, high = scale.place(row.low), scale.place(row.high)
    drawn = [line(low, y, high, y, "whisker"), line(low, y - 5, low, y + 5, "whisker")]
    drawn += [line(high, y - 5, high, y + 5, "whisker"), mark(0, scale.place(row.value), y)]
    drawn.append(words(row.told, WIDTH - 140, y + 4, "value"))
    return [label, linked(row.target, f"{row.label}: {row.told}", *drawn)]


# The heat map: a square for each task and agent, stronger the higher the mean, with the mean written in it.


_HEAT_ROW, _HEAT_LEFT, _WIDEST = 20.0, 210.0, 110.0


@dataclass(frozen=True, slots=True)
class HeatSquare:
    """What an agent got at a task, or at several; None where nothing was judged."""

    mean: float | None
    told: str
    target: str


@dataclass(frozen=True, slots=True)
class HeatRow:
    """A task, or several that are drawn as one, with a square for each agent. `target` leads to the trials of one."""

    label: str
    squares: tuple[HeatSquare, ...]
    target: str | None = None


def heat_picture(name: str, agents: Sequence[str], rows: Sequence[HeatRow]) -> str:
    """Squares in rows, the first row on top."""
    left = label_room((row.label for row in rows), _HEAT_LEFT)
    wide = min(_WIDEST, (WIDTH - left - 60) / max(1, len(agents)))
    top = _heading_height(agents, wide)
    headings, labels = shortened_apart(agents, 24), shortened_apart([row.label for row in rows], 30)
    parts = [_heading(agent, headings[index], left + wide * (index + 0.5), top) for index, agent in enumerate(agents)]
    for index, row in enumerate(rows):
        y = top + _HEAT_ROW * index
        parts.append(words(labels[index], left - 10, y + 14, "label end", row.label))
        parts += [_square(square, left + wide * at, y, wide) for at, square in enumerate(row.squares)]
    told = f"{len(rows)} rows of tasks, easiest first, and {len(agents)} agents, best first; the table has the numbers"
    return picture(name, "Mean reward of each agent at each task", told, top + _HEAT_ROW * len(rows) + 6, parts)


def shade(mean: float) -> int:
    """One of eleven shades. The first and the last are for nothing and everything alone."""
    if mean <= 0:
        return 0
    return 10 if mean >= 1 else 1 + min(8, int(mean * 9))


def _fits(agents: Sequence[str], wide: float) -> bool:
    return all(len(agent) * LETTER < wide for agent in agents)


def _heading_height(agents: Sequence[str], wide: float) -> float:
    return 22.0 if _fits(agents, wide) else 26.0 + 4.6 * min(24, max((len(agent) for agent in agents), default=0))


def _heading(agent: str, short: str, x: float, top: float) -> str:
    if top <= 22.0:
        return words(agent, x, top - 8, "label middle", agent)
    turned = words(short, 0, 0, "label", agent)
    return element("g", {"transform": f"translate({number(x)} {number(top - 6)}) rotate(-42)"}, turned)


def _square(square: HeatSquare, x: float, y: float, wide: float) -> str:
    kind = "none" if square.mean is None else f"h{shade(square.mean)}"
    place: dict[str, str | float] = {
        "class": f"heat {kind}",
        "x": x,
        "y": y,
        "width": wide - 2,
        "height": _HEAT_ROW - 2,
    }
    drawn = [element("rect", place)]
    if wide >= 30:
        shown = format_mean(square.mean, ".2f")
        drawn.append(words(shown, x + wide / 2 - 1, y + 13, f"in {kind}"))
    return linked(square.target, square.told, *drawn)


# How long trials took: for each agent the middle half as a box, the median in it, and how far the others reach.


_TIMES_ROW, _TIMES_TOP, _TIMES_LEFT, _TIMES_RIGHT = 30.0, 14.0, 190.0, 100.0
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
    room = label_room((row.label for row in rows), _TIMES_LEFT)
    scale = _scale(known, room)
    bottom = _TIMES_TOP + _TIMES_ROW * len(rows)
    parts = []
    for tick in _ticks(scale):
        x = scale.place(tick)
        parts += [line(x, _TIMES_TOP, x, bottom, "grid"), words(said_time(tick), x, bottom + 16, "tick middle")]
    labels = shortened_apart([row.label for row in rows], 26)
    parts += [part for index, row in enumerate(rows) for part in _times_row(row, labels[index], index, scale)]
    parts.append(words("time of a trial", (scale.start + scale.end) / 2, bottom + 33, "axis middle"))
    told = "; ".join(f"{row.label}: median {format_duration(row.spread.median)}" for row in rows[:20] if row.spread)
    return picture(name, "How long trials took", told, bottom + 40, parts)


def _scale(spreads: Sequence[TimeSpread], start: float) -> Scale:
    low = max(0.01, min((each.least for each in spreads), default=0.0))
    high = max(1.0, max((each.most for each in spreads), default=1.0))
    if high / low > 10:
        return Scale(max(mark for mark in _SAID if mark <= low), high, start, WIDTH - _TIMES_RIGHT, "log")
    return Scale(0.0, high, start, WIDTH - _TIMES_RIGHT)


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


def _times_row(row: TimesRow, short: str, index: int, scale: Scale) -> list[str]:
    y = _TIMES_TOP + _TIMES_ROW * (index + 0.5)
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
