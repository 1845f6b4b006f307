import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.report.pictures.drawing import (
    Scale,
    element,
    label_room,
    linked,
    mark,
    number,
    picture,
    scale_for,
    shortened,
    shortened_apart,
    words,
)
from tests.report.sample_reports import HOSTILE


@pytest.mark.parametrize("name", HOSTILE)
def test_a_stranger_s_words_stay_words(name):
    drawn = picture("p", name, name, 10, [words(name, 1, 2, "label", name), linked("#x", name, mark(0, 1, 1))])
    root = ET.fromstring(drawn)  # noqa: S314 - our own
    assert {each.tag.rpartition("}")[2] for each in root.iter()} == {"svg", "title", "desc", "text", "a", "circle"}
    assert not [key for each in root.iter() for key in each.attrib if key.startswith("on")]


def test_attributes_are_escaped():
    assert element("a", {"href": '"><b>'}) == '<a href="&quot;&gt;&lt;b&gt;"/>'


@pytest.mark.parametrize(("value", "written"), [(1.0, "1"), (1.25, "1.2"), (-0.01, "0"), (100, "100"), (0.5, "0.5")])
def test_numbers_are_short(value, written):
    assert number(value) == written


def test_a_long_name_keeps_both_ends():
    assert shortened("a" * 50 + "-007", 12) == "aaaaaaa…-007"
    assert shortened("short", 12) == "short"


def test_labels_get_the_room_they_need_and_no_more():
    assert label_room(["x"], 200) < label_room(["x" * 20], 200) < label_room(["x" * 900], 200) == 200
    assert label_room([], 200) == 24


def test_agents_have_marks_of_different_shapes():
    shapes = [re.sub(r"m\d", "", mark(index, 50, 50)) for index in range(6)]
    assert len(set(shapes)) == 6


def test_long_names_that_differ_in_the_middle_are_told_apart():
    names = [f"an-agent-with-a-long-name-and-model-{number}-of-this-year-preview" for number in (41, 45)]
    assert len({shortened(name, 26) for name in names}) == 1
    assert shortened_apart([*names, "x"], 26) == ["an-agent…l-41-of-this-yea…", "an-agent…l-45-of-this-yea…", "x"]
    assert shortened_apart(["w" * 90, "w" * 90], 12) == [shortened("w" * 90, 12)] * 2


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
