"""The time line of phases."""

import datetime as dt
from xml.etree import ElementTree as ET

from seatrial.model.record import PhaseTime
from seatrial.view.trial.timeline import MOST_ROWS, timeline
from tests.jobs.samples import NOON

SVG = "{http://www.w3.org/2000/svg}"


def phase(name, start, end, step=None):
    begun, ended = (NOON + dt.timedelta(seconds=each) for each in (start, end))
    return PhaseTime(phase=name, step=step, started_at=begun, finished_at=ended)


def drawn_of(times):
    return ET.fromstring(timeline(times))  # noqa: S314 - our own


def test_bars_begin_and_end_where_phases_do():
    drawn = drawn_of([phase("setup", 0, 1), phase("agent", 1, 9), phase("verify", 9, 10)])
    bars = list(drawn.iter(f"{SVG}rect"))
    starts, widths = ([float(bar.attrib[name]) for bar in bars] for name in ("x", "width"))
    assert [bar.attrib["class"] for bar in bars] == ["phase setup", "phase agent", "phase verify"]
    assert starts[1] == starts[0] + widths[0]
    assert widths[1] == 8 * widths[0]
    assert not any("style" in each.attrib for each in drawn.iter())
    assert "agent 8.0 s" in (drawn.findtext(f"{SVG}desc") or "")


def test_phases_of_no_length_can_be_seen_and_hostile_steps_are_only_text():
    drawn = drawn_of([phase("agent", 5, 5, "<script>\x1b[31m")])
    (bar,) = drawn.iter(f"{SVG}rect")
    assert float(bar.attrib["width"]) > 0
    assert any("<script> [31m" in (each.text or "") for each in drawn.iter(f"{SVG}text"))


def test_none_and_very_many():
    assert timeline([]) == ""
    drawn = drawn_of([phase("agent", 0, each) for each in range(200)])
    assert len(list(drawn.iter(f"{SVG}rect"))) == MOST_ROWS
