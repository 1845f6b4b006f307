import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.report.pictures.pictures import (
    FlipRow,
    ForestRow,
    HeatRow,
    HeatSquare,
    TimesRow,
    flips_picture,
    forest_picture,
    heat_picture,
    shade,
    time_spread,
    times_picture,
)


def test_wins_and_losses_are_told_apart_by_more_than_colour():
    drawn = flips_picture("f", "old", "new", [FlipRow("won", 0.0, 1.0, "#w"), FlipRow("lost", 1.0, 0.5, "#l")])
    won, lost = (drawn.split(f'class="{kind}"')[1].split("</g>")[0] for kind in ("won", "lost"))
    middle = float(won.split('x1="')[1].split('"')[0])
    assert float(won.split('x2="')[1].split('"')[0]) > middle > float(lost.split('x2="')[1].split('"')[0])
    assert "← old better" in drawn
    assert "new better →" in drawn


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


@pytest.mark.parametrize(("mean", "expected"), [(0.0, 0), (0.001, 1), (0.5, 5), (0.999, 9), (1.0, 10)])
def test_only_nothing_and_everything_have_the_outermost_shades(mean, expected):
    assert shade(mean) == expected


def test_what_was_never_judged_is_no_zero():
    row = HeatRow("task", (HeatSquare(None, "not judged", "#a"), HeatSquare(0.0, "nothing", "#b")))
    drawn = heat_picture("h", ["a", "b"], [row])
    assert drawn.count('class="heat none"') == 1
    assert drawn.count('class="heat h0"') == 1
    assert ">-</text>" in drawn
    assert ">0.00</text>" in drawn


def test_many_agents_get_narrow_squares_and_slanted_names():
    squares = tuple(HeatSquare(0.5, "half", "#a") for _ in range(40))
    drawn = heat_picture("h", [f"a-rather-long-name-{index}" for index in range(40)], [HeatRow("task", squares)])
    assert drawn.count("rotate(") == 40
    assert ">0.50</text>" not in drawn


SECONDS = st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=30)


@given(SECONDS)
def test_a_spread_is_in_order_and_made_of_times_that_were_seen(seconds):
    spread = time_spread(seconds)
    assert spread
    values = [spread.least, spread.quarter, spread.median, spread.three_quarters, spread.nine_tenths, spread.most]
    assert values == sorted(values)
    assert {*values} - {spread.median} <= {*seconds}
    assert spread.median == statistics.median(seconds)
    assert (values[0], values[-1]) == (min(seconds), max(seconds))
    assert "<rect" in times_picture("t", [TimesRow("a", spread, "#a")])


def test_nine_of_ten_are_within_what_is_said():
    spread = time_spread([float(second) for second in range(1, 101)])
    assert spread
    assert (spread.quarter, spread.median, spread.three_quarters, spread.nine_tenths) == (25, 50.5, 75, 90)


def test_an_agent_without_times_says_so():
    assert time_spread([]) is None
    drawn = times_picture("t", [TimesRow("a", time_spread([1.0, 90.0]), "#a"), TimesRow("b", None, "#b")])
    assert "no time is known" in drawn
    assert "1 min" in drawn
