"""Colours: those of outcomes, and none for people and terminals that want none."""

from typing import get_args

import pytest

from seatrial.cli.colours import OUTCOME_COLOURS, paint, paint_outcome
from seatrial.model.record import Outcome


def test_every_outcome_has_a_colour():
    assert OUTCOME_COLOURS.keys() == set(get_args(Outcome))


def test_outcomes_are_painted_and_other_words_are_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint_outcome("pass") == "\x1b[32mpass\x1b[0m"
    assert paint_outcome("passage") == "passage"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_there_is_no_colour_where_none_is_wanted(monkeypatch: pytest.MonkeyPatch, name, value):
    monkeypatch.setenv(name, value)
    assert paint("pass", "green", bold=True) == "pass"
