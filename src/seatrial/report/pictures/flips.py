"""Where two agents differ: a line for each task, right where the second is better, left where it is worse."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.report.pictures.drawing import (
    WIDTH,
    element,
    label_room,
    line,
    linked,
    number,
    picture,
    shortened_apart,
    words,
)
from seatrial.report.pictures.scales import Scale

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
    told = "; ".join(f"{row.task}: {row.first:.3f} to {row.second:.3f}" for row in rows[:20])
    return picture(name, f"Tasks at which {first} and {second} differ", told, bottom + 40, parts)


def _row(row: FlipRow, short: str, index: int, scale: Scale) -> list[str]:
    y = _TOP + _ROW * (index + 0.5)
    end, won = scale.place(row.second - row.first), row.second > row.first
    side = 5.0 if won else -5.0
    points = " ".join(
        f"{number(x)},{number(at)}" for x, at in ((end + side, y), (end - side, y - 5), (end - side, y + 5))
    )
    drawn = [line(scale.place(0), y, end, y, "stem"), element("polygon", {"class": "tip", "points": points})]
    told = f"{row.task}: {row.first:.3f} to {row.second:.3f}"
    both = element("g", {"class": "won" if won else "lost"}, *drawn)
    label = words(short, scale.start - 12, y + 4, "label end", row.task)
    return [label, linked(row.target, told, both)]
