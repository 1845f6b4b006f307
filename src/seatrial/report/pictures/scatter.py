"""Rewards against what they cost: a mark for each agent, and the front of those that no other beats in both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seatrial.model.outcome import format_mean, format_range
from seatrial.report.pictures.drawing import (
    LETTER,
    WIDTH,
    Scale,
    element,
    line,
    linked,
    mark,
    number,
    picture,
    scale_for,
    shortened_apart,
    words,
)

_TOP, _BOTTOM, _LEFT, _RIGHT = 24.0, 324.0, 52.0, 24.0
_LINE = 15.0  # how high a line of a label is
_FARTHEST = 4 * _LINE  # from its mark; farther away a reader cannot tell whose name it is


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """An agent: what it cost, its mean with its interval, and whether no other is as good for less."""

    label: str
    cost: float
    value: float
    low: float
    high: float
    on_front: bool
    target: str


@dataclass(frozen=True, slots=True)
class CostAxis:
    """What the axis of costs is called, how a value is written, and how a round one is beside the axis."""

    title: str
    written: Callable[[float], str]
    ticked: Callable[[float], str]


def scatter_picture(name: str, points: Sequence[ScatterPoint], axis: CostAxis) -> str:
    """Means by cost. The axis of costs goes by powers where costs are far apart.

    In a crowd some marks have no name beside them; it is told where a pointer rests on them.
    """
    across = scale_for([point.cost for point in points], _LEFT, WIDTH - _RIGHT)
    up = Scale(0.0, 1.0, _BOTTOM, _TOP)
    title = f"Mean reward against {axis.title}"
    told = "; ".join(
        f"{point.label}: {format_mean(point.value)} for {axis.written(point.cost)}" for point in points[:20]
    )
    parts = [*_axes(across, up, axis), _front(points, across, up)]
    labels = shortened_apart([point.label for point in points], 26)
    places = _label_places(points, labels, across, up)
    for index, point in enumerate(points):
        parts += _point(point, labels[index], index, (across, up), places[index])
    return picture(name, title, told, _BOTTOM + 46, parts)


def _axes(across: Scale, up: Scale, axis: CostAxis) -> list[str]:
    parts = []
    for tick in across.ticks():
        x = across.place(tick)
        parts += [line(x, _TOP, x, _BOTTOM, "grid"), words(axis.ticked(tick), x, _BOTTOM + 18, "tick middle")]
    for tick in up.ticks():
        y = up.place(tick)
        parts += [line(_LEFT, y, WIDTH - _RIGHT, y, "grid"), words(f"{tick:.1f}", _LEFT - 8, y + 4, "tick end")]
    said = f"{axis.title} (logarithmic)" if across.kind == "log" else axis.title
    return [*parts, words(said, (across.start + across.end) / 2, _BOTTOM + 38, "axis middle")]


def _front(points: Sequence[ScatterPoint], across: Scale, up: Scale) -> str:
    """The front as steps: at most this cost, no agent has more than that mean."""
    path = ""
    for point in sorted((each for each in points if each.on_front), key=lambda each: (each.cost, each.value)):
        x, y = number(across.place(point.cost)), number(up.place(point.value))
        path += f"H{x}V{y}" if path else f"M{x} {number(_BOTTOM)}V{y}"
    return element("path", {"class": "front", "d": f"{path}H{number(across.end)}"}) if path else ""


def _point(
    point: ScatterPoint, short: str, index: int, scales: tuple[Scale, Scale], place: tuple[float, float, str]
) -> list[str]:
    across, up = scales
    x, y = across.place(point.cost), up.place(point.value)
    drawn = [line(x, up.place(point.low), x, up.place(point.high), "whisker thin"), mark(index, x, y, 6)]
    label_x, label_y, side = place
    kind = f"label {side}" if side else "label"
    told = f"{point.label}: {format_mean(point.value)} ({format_range(point.low, point.high)})"
    if label_y - y > _FARTHEST:
        return [linked(point.target, told, *drawn)]
    return [linked(point.target, told, *drawn), words(short, label_x, label_y, kind, point.label)]


def _label_places(
    points: Sequence[ScatterPoint], labels: Sequence[str], across: Scale, up: Scale
) -> list[tuple[float, float, str]]:
    """Beside each mark, on the side where there is room, moved down while another label is in the way."""
    taken: list[tuple[float, float, float]] = []
    places: dict[int, tuple[float, float, str]] = {}
    for index in sorted(range(len(points)), key=lambda each: (-points[each].value, points[each].cost)):
        point = points[index]
        x, y = across.place(point.cost), up.place(point.value) - 8
        long = LETTER * len(labels[index])
        left = x + 12 + long > WIDTH - 4
        begin, end = (x - 12 - long, x - 12) if left else (x + 12, x + 12 + long)
        while any(begin < right and end > start and abs(y - at) < _LINE for start, right, at in taken):
            y += _LINE
        if y - up.place(point.value) <= _FARTHEST:
            taken.append((begin, end, y))
        places[index] = (x - 12 if left else x + 12, y, "end" if left else "")
    return [places[index] for index in range(len(points))]
