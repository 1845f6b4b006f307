import re

import pytest

from seatrial.report.pictures.forest import ForestRow, forest_picture

ROWS = [ForestRow("good", 0.75, 0.5, 0.9, "0.750", "#g"), ForestRow("unknown", None, 0.0, 0.0, "nothing", "#u")]


def test_a_mean_lies_within_its_interval_and_links_to_its_trials():
    drawn = forest_picture("f", ROWS)
    low, high = (float(x) for x in re.findall(r'whisker" x1="([\d.]+)" y1="29" x2="([\d.]+)"', drawn)[0])
    middle = float(re.findall(r'cx="([\d.]+)"', drawn)[0])
    assert low < middle < high
    assert (middle - low) / (high - low) == pytest.approx(0.625, abs=0.01)
    assert 'href="#g"' in drawn


def test_an_agent_that_was_never_judged_has_no_mark():
    drawn = forest_picture("f", ROWS[1:])
    assert "nothing was judged" in drawn
    assert "whisker" not in drawn
    assert "<circle" not in drawn
