import re
from xml.etree import ElementTree as ET

import pytest

from seatrial.report.pictures.drawing import (
    element,
    label_room,
    linked,
    mark,
    number,
    picture,
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
