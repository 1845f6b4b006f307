"""Where answers stand in texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.env.parsers.answers import extract_boxed_answer, extract_hash_answer, strip_non_numeric, strip_think

balanced = st.recursive(
    st.text("ab+ ", max_size=4), lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}")
)


@given(st.text("ab{}", max_size=8), balanced, st.text("ab}", max_size=8))
@settings(max_examples=40)
def test_the_last_box_is_read_to_its_own_brace(before, inside, after):
    assert extract_boxed_answer(rf"{before}\boxed{{{inside}}}{after}") == inside


@pytest.mark.parametrize("text", ["", "no box", r"\boxed{never closed", r"\boxed{1} \boxed{{2}", r"\boxed 1"])
def test_without_a_whole_last_box_the_text_stands_or_nothing(text):
    assert extract_boxed_answer(text) == text
    assert extract_boxed_answer(text, strict=True) == ""


@pytest.mark.parametrize(
    ("text", "found"), [("so #### 4 ", "4"), ("#### 4 #### 5", "4"), ("### 4", "### 4"), ("a ####", "")]
)
def test_what_follows_the_hashes(text, found):
    assert extract_hash_answer(text) == found


def test_digits_and_points():
    assert strip_non_numeric("$1,234.50 each") == "1234.50"


@pytest.mark.parametrize(
    ("text", "found"),
    [("<think>a</think> b ", "b"), (" plain ", "plain"), ("a</think>b</think>c", "c"), ("<think>a</think>", "")],
)
def test_what_follows_the_thinking(text, found):
    assert strip_think(text) == found
