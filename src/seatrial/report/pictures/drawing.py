"""The parts that pictures are made of: elements, words, and a frame that tells a screen reader what is seen."""

import html
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from seatrial.report.text import harmless

WIDTH = 720
"""How wide a picture is, in its own units; the page scales it."""
LETTER = 6.6
"""How wide a letter of a label is, near enough."""


def element(name: str, attributes: Mapping[str, str | float], *children: str) -> str:
    """An element of SVG. Attributes are escaped here; children are elements already."""
    written = "".join(f' {key}="{_written(value)}"' for key, value in attributes.items())
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def _written(value: str | float) -> str:
    return html.escape(value) if isinstance(value, str) else number(value)


def number(value: float) -> str:
    """A length with one digit, as short as it can be written."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def words(text: str, x: float, y: float, kind: str, title: str | None = None) -> str:
    """Words at a place; `kind` is their class. A `title` is what a pointer that rests on them is told."""
    inside = [html.escape(harmless(text))]
    if title is not None:
        inside.append(element("title", {}, html.escape(harmless(title))))
    return element("text", {"class": kind, "x": x, "y": y}, *inside)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A straight line of a class."""
    return element("line", {"class": kind, "x1": x1, "y1": y1, "x2": x2, "y2": y2})


def linked(target: str, told: str, *children: str) -> str:
    """What leads to trials, and what a pointer that rests on it is told."""
    return element("a", {"href": target}, element("title", {}, html.escape(harmless(told))), *children)


def shortened(text: str, longest: int) -> str:
    """A name that fits; names are told apart by both ends, so what is left out is in the middle."""
    shown = harmless(text)
    if len(shown) <= longest:
        return shown
    tail = longest // 3
    return f"{shown[: longest - tail - 1]}…{shown[len(shown) - tail :]}"


def shortened_apart(names: Sequence[str], longest: int) -> list[str]:
    """Names that fit, in their order. Those that would look alike are shown from where they begin to differ."""
    shown = [shortened(name, longest) for name in names]
    alike: dict[str, set[str]] = {}
    for name, short in zip(names, shown, strict=True):
        alike.setdefault(short, set()).add(harmless(name))
    return [
        _from_difference(harmless(name), alike[short], longest) if len(alike[short]) > 1 else short
        for name, short in zip(names, shown, strict=True)
    ]


def _from_difference(name: str, others: set[str], longest: int) -> str:
    head = longest // 3
    alike = os.path.commonprefix([*others])  # noqa: RUF071 - of names, not of paths
    begin = max(head, len(alike) - 3)  # with a little of what comes before
    return f"{name[:head]}…{_cut(name[begin:], longest - head - 1)}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def label_room(labels: Iterable[str], most: float) -> float:
    """How far from the left edge a picture begins whose rows have such labels, and no further than `most`."""
    return min(most, 24.0 + LETTER * max((len(harmless(label)) for label in labels), default=0))


def picture(name: str, title: str, description: str, height: float, parts: Iterable[str]) -> str:
    """A whole picture. `name` tells it from the others of a page; title and description are for screen readers."""
    return element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "picture",
            "viewBox": f"0 0 {WIDTH} {number(height)}",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-desc",
        },
        element("title", {"id": f"{name}-title"}, html.escape(harmless(title))),
        element("desc", {"id": f"{name}-desc"}, html.escape(harmless(description))),
        *parts,
    )


def mark(shape: int, x: float, y: float, size: float = 5.0) -> str:
    """The mark of one of several agents: a shape of its own, so that nobody has to tell colours apart."""
    kind = f"mark m{shape % 6}"
    if shape % 6 == 0:
        return element("circle", {"class": kind, "cx": x, "cy": y, "r": size})
    corners = _SHAPES[shape % 6 - 1]
    points = " ".join(f"{number(x + dx * size)},{number(y + dy * size)}" for dx, dy in corners)
    return element("polygon", {"class": kind, "points": points})


_PLUS = ((-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4))
_SHAPES = (
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
    ((0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)),
    ((0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)),
    (*_PLUS, *((-x, -y) for x, y in _PLUS)),
)


# Scales: where on a picture a value lies, and which values are written beside its axis.


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
