"""The forest plot: means with their intervals below each other, on one axis from 0 to 1."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.report.pictures.drawing import WIDTH, label_room, line, linked, mark, picture, shortened_apart, words
from seatrial.report.pictures.scales import Scale

_ROW, _TOP, _LEFT, _RIGHT = 30.0, 14.0, 190.0, 150.0


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
    scale = Scale(0.0, 1.0, label_room((row.label for row in rows), _LEFT), WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(rows)
    labels = shortened_apart([row.label for row in rows], 26)
    drawn = (part for index, row in enumerate(rows) for part in _row(row, labels[index], index, scale))
    parts = [*_axis(scale, bottom), *drawn]
    told = "; ".join(f"{row.label}: {row.told}" for row in rows[:20])
    return picture(name, "Mean rewards with their intervals", told, bottom + 40, parts)


def _axis(scale: Scale, bottom: float) -> list[str]:
    parts = []
    for tick in scale.ticks():
        x = scale.place(tick)
        parts += [line(x, _TOP, x, bottom, "grid"), words(f"{tick:g}", x, bottom + 16, "tick middle")]
    return [*parts, words("mean reward over tasks", (scale.start + scale.end) / 2, bottom + 33, "axis middle")]


def _row(row: ForestRow, short: str, index: int, scale: Scale) -> list[str]:
    y = _TOP + _ROW * (index + 0.5)
    label = words(short, scale.start - 12, y + 4, "label end", row.label)
    if row.value is None:
        return [label, words("nothing was judged", scale.start + 8, y + 4, "faint")]
    low, high = scale.place(row.low), scale.place(row.high)
    drawn = [line(low, y, high, y, "whisker"), line(low, y - 5, low, y + 5, "whisker")]
    drawn += [line(high, y - 5, high, y + 5, "whisker"), mark(0, scale.place(row.value), y)]
    drawn.append(words(row.told, WIDTH - 140, y + 4, "value"))
    return [label, linked(row.target, f"{row.label}: {row.told}", *drawn)]
