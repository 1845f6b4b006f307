import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.report.pictures.scales import Scale, scale_for

AMOUNTS = st.floats(min_value=0, max_value=1e9) | st.floats(min_value=1e-6, max_value=1)


@given(st.lists(AMOUNTS, min_size=1, max_size=20))
def test_every_value_lies_on_its_scale_in_order(values):
    scale = scale_for(values, 50, 700)
    assert scale.low <= min(values)
    assert scale.high >= max(values) * (1 - 1e-9)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(50 <= place <= 700 for place in places)
    assert 1 <= len(scale.ticks()) <= 12
    assert all(scale.low <= tick * (1 + 1e-9) and tick <= scale.high * (1 + 1e-9) for tick in scale.ticks())


def test_far_apart_values_are_placed_by_powers():
    scale = scale_for([0.004, 0.4], 0, 100)
    assert scale.kind == "log"
    assert scale.ticks() == pytest.approx([0.01, 0.1])
    assert scale_for([0.2, 0.4], 0, 100).kind == "linear"
    assert scale_for([0.0, 400.0], 0, 100).kind == "linear"


def test_a_scale_may_run_upwards_and_keeps_what_is_beyond_at_its_edge():
    scale = Scale(0.0, 1.0, 300, 10)
    assert scale.place(0) == 300
    assert scale.place(7) == 10
    assert scale.ticks() == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
