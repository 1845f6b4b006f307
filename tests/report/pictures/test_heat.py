import pytest

from seatrial.report.pictures.heat import HeatRow, HeatSquare, heat_picture, shade


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
