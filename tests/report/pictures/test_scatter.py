import re

from seatrial.report.pictures.scatter import CostAxis, ScatterPoint, scatter_picture

AXIS = CostAxis("cost of a trial", lambda value: f"${value:g}", lambda value: f"${value:g}")


def point(label: str, cost: float, value: float, *, front: bool = True) -> ScatterPoint:
    return ScatterPoint(label, cost, value, value - 0.1, value + 0.1, front, f"#{label}")


def test_the_front_goes_by_cost_whatever_the_order():
    cheap, middle, dear = point("a", 1, 0.2), point("b", 2, 0.5), point("c", 4, 0.9)
    paths = {
        re.findall(r'class="front" d="([^"]+)"', scatter_picture("s", points, AXIS))[0]
        for points in ([cheap, middle, dear], [dear, cheap, middle])
    }
    assert len(paths) == 1
    assert paths.pop().count("V") == 3


def test_those_behind_the_front_are_drawn_but_not_on_it():
    drawn = scatter_picture("s", [point("a", 1, 0.5), point("b", 2, 0.3, front=False)], AXIS)
    assert re.findall(r' d="([^"]+)"', drawn)[0].count("V") == 1
    assert drawn.count("<a ") == 2


def test_labels_of_agents_at_the_same_place_do_not_cover_each_other():
    drawn = scatter_picture("s", [point(name, 1, 0.5) for name in "abcd"], AXIS)
    places = re.findall(r'class="label[^"]*" x="[\d.]+" y="([\d.]+)"', drawn)
    assert len(set(places)) == 4


def test_an_axis_by_powers_says_so():
    assert "(logarithmic)" in scatter_picture("s", [point("a", 0.01, 0.5), point("b", 9, 0.9)], AXIS)
    assert "(logarithmic)" not in scatter_picture("s", [point("a", 0, 0.5), point("b", 9, 0.9)], AXIS)


def test_names_in_a_crowd_stay_near_their_marks():
    drawn = scatter_picture("s", [point(f"agent-{number}", 1, 0.1) for number in range(40)], AXIS)
    marks = [float(place) for place in re.findall(r'class="whisker thin"[^>]* y2="([\d.]+)"', drawn)]
    labels = [float(place) for place in re.findall(r'class="label[^"]*" x="[\d.]+" y="([\d.]+)"', drawn)]
    assert 3 <= len(labels) < 10
    assert max(labels) - min(marks) < 100
    assert drawn.count("<a ") == 40


def test_the_name_of_a_perfect_agent_is_not_cut_off_at_the_top():
    drawn = scatter_picture("s", [point("a", 1, 1.0)], AXIS)
    assert float(re.findall(r'class="label" x="[\d.]+" y="([\d.]+)"', drawn)[0]) >= 14
