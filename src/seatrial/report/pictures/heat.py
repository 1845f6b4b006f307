"""The heat map: a square for each task and agent, stronger the higher the mean, with the mean written in it."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.report.pictures.drawing import (
    LETTER,
    WIDTH,
    element,
    label_room,
    linked,
    number,
    picture,
    shortened_apart,
    words,
)

_ROW, _LEFT, _WIDEST = 20.0, 210.0, 110.0


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
    left = label_room((row.label for row in rows), _LEFT)
    wide = min(_WIDEST, (WIDTH - left - 60) / max(1, len(agents)))
    top = _heading_height(agents, wide)
    headings, labels = shortened_apart(agents, 24), shortened_apart([row.label for row in rows], 30)
    parts = [_heading(agent, headings[index], left + wide * (index + 0.5), top) for index, agent in enumerate(agents)]
    for index, row in enumerate(rows):
        y = top + _ROW * index
        parts.append(words(labels[index], left - 10, y + 14, "label end", row.label))
        parts += [_square(square, left + wide * at, y, wide) for at, square in enumerate(row.squares)]
    told = f"{len(rows)} rows of tasks, easiest first, and {len(agents)} agents, best first; the table has the numbers"
    return picture(name, "Mean reward of each agent at each task", told, top + _ROW * len(rows) + 6, parts)


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
    place: dict[str, str | float] = {"class": f"heat {kind}", "x": x, "y": y, "width": wide - 2, "height": _ROW - 2}
    drawn = [element("rect", place)]
    if wide >= 30:
        shown = "-" if square.mean is None else f"{square.mean:.2f}"
        drawn.append(words(shown, x + wide / 2 - 1, y + 13, f"in {kind}"))
    return linked(square.target, square.told, *drawn)
