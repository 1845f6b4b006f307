import statistics

from hypothesis import given
from hypothesis import strategies as st

from seatrial.report.pictures.times import TimesRow, time_spread, times_picture

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
