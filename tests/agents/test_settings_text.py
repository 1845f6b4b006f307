"""Settings as text: whatever is in them, the file says just that."""

import json

import tomli
from hypothesis import given
from hypothesis import strategies as st

from seatrial.agents.settings_text import merged, settings_text

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
SETTINGS = st.dictionaries(TEXTS, VALUES, max_size=4)


@given(SETTINGS)
def test_a_file_says_what_was_meant(settings):
    assert tomli.loads(settings_text("config.toml", settings)) == settings
    assert json.loads(settings_text("settings.json", settings)) == settings


def test_what_is_nothing_has_no_place_in_toml():
    assert settings_text("a.toml", {"a": None, "b": {"c": None, "d": 1}}) == "b = {d = 1}\n"


def test_tables_are_merged_and_all_else_is_replaced():
    below = {"a": {"b": 1, "c": [1]}, "d": "x"}
    assert merged(below, {"a": {"c": [2], "e": 3}, "d": {"f": 4}}) == {"a": {"b": 1, "c": [2], "e": 3}, "d": {"f": 4}}
    assert below == {"a": {"b": 1, "c": [1]}, "d": "x"}
