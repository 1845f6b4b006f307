"""The phases of a trial on a time line: a row for each, a bar from when it began to when it ended."""

import datetime as dt
from collections.abc import Sequence

from seatrial.model.record import PhaseTime
from seatrial.report.pictures.drawing import WIDTH, element, line, picture, shortened, words
from seatrial.report.pictures.scales import Scale
from seatrial.report.text import format_duration, harmless

_ROW, _TOP, _LEFT, _RIGHT = 24.0, 10.0, 170.0, 90.0
_LEAST_WIDTH = 2.0
_LONGEST_LABEL = 24
MOST_ROWS = 60
"""A task of many steps has a phase of each kind for each of them; the table below the picture has all."""


def timeline(times: Sequence[PhaseTime]) -> str:
    """A picture of phases, in SVG; empty where no time is known."""
    shown = times[:MOST_ROWS]
    if not shown:
        return ""
    begun = min(time.started_at for time in shown)
    total = max(_after(begun, time.finished_at) for time in shown)
    scale = Scale(0.0, max(total, 0.001), _LEFT, WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(shown)
    parts = []
    for tick in scale.ticks():
        x = scale.place(tick)
        parts += [line(x, _TOP, x, bottom, "grid"), words(_said(tick), x, bottom + 16, "tick middle")]
    parts += [part for row, time in enumerate(shown) for part in _row(row, time, begun, scale)]
    told = "; ".join(f"{_label(time)} {format_duration(_length(time))}" for time in shown)
    return picture("phases", "What took how long", told, bottom + 24, parts)


def _row(row: int, time: PhaseTime, begun: dt.datetime, scale: Scale) -> list[str]:
    y = _TOP + _ROW * row
    start, end = scale.place(_after(begun, time.started_at)), scale.place(_after(begun, time.finished_at))
    bar: dict[str, str | float] = {
        "class": f"phase {time.phase}",
        "x": start,
        "y": y + 5,
        "width": max(_LEAST_WIDTH, end - start),
        "height": _ROW - 10,
        "rx": 2.0,
    }
    label = words(shortened(_label(time), _LONGEST_LABEL), _LEFT - 10, y + 16, "label end", _label(time))
    return [label, element("rect", bar), words(format_duration(_length(time)), WIDTH - _RIGHT + 8, y + 16, "value")]


def _label(time: PhaseTime) -> str:
    return f"{time.phase} · {harmless(time.step)}" if time.step else time.phase


def _said(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 120 else format_duration(seconds)


def _length(time: PhaseTime) -> float:
    return _after(time.started_at, time.finished_at)


def _after(begun: dt.datetime, moment: dt.datetime) -> float:
    return (moment - begun).total_seconds()
