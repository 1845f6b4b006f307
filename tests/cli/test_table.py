"""Tables: aligned, numbers whole, text wrapped only where a screen ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.cli.table import GAP, Line, lay_out, wrapped
from seatrial.report.text import shown_width

TEXT = "a description that is far too long for the screen that it has to be shown on"
NUMBERS = ["-", "1.000", "0.676 to 1.000", "100.0%", "8 of 8", "0.0001 USD", "0 (or 1)"]


def written(line: Line) -> str:
    return GAP.join(f"{cell.before}{cell.text}{cell.after}" for cell in line).rstrip()


def lines(columns, rows, width=None):
    return [written(line) for row in lay_out(columns, rows, width) for line in row]


def test_text_is_left_and_numbers_are_right():
    assert lines(("name", "n", "time"), [("a", "1", "0.5 s"), ("bcdef", "2,000", "3 min 20 s")]) == [
        "name       n        time",
        "a          1       0.5 s",
        "bcdef  2,000  3 min 20 s",
    ]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_column_of_numbers_is_never_wrapped(number):
    assert number in lines(("what", "n", "why"), [(TEXT, number, TEXT)], 45)[1]


def test_text_is_wrapped_where_the_screen_ends_and_nothing_is_lost():
    shown = lines(("what", "n", "why"), [(TEXT, "12", TEXT)], 60)
    assert max(map(len, shown)) <= 60
    assert " ".join(shown).count("screen") == 2


def test_a_table_that_cannot_fit_is_not_cut():
    shown = lines(("what", "n"), [("x" * 30, "1" * 50)], 40)
    assert any("1" * 50 in line for line in shown)
    assert "".join(line[:10].strip() for line in shown[1:]) == "x" * 30


def test_wide_characters_take_two_columns():
    assert lines(("名前", "n"), [("日本語", "1")]) == ["名前    n", "日本語  1"]


@given(st.lists(st.tuples(st.text(min_size=1), st.integers().map(str)), min_size=1), st.integers(20, 100))
def test_no_number_is_ever_broken(rows, width):
    shown = lines(("what", "number"), rows, width)
    for _, number in rows:
        assert any(line.endswith(number) for line in shown)


def test_signs_of_two_columns_and_of_none_are_wrapped_by_the_columns_they_take():
    name = "日本語の長い名前のタスク" * 3 + " e" + "\u0301" * 40
    shown = lines(("task", "n"), [(name, "12"), ("plain", "3")], 30)
    assert {shown_width(line) for line in shown[:-1] if line.endswith(("n", "12"))} == {30}
    assert max(map(shown_width, shown)) <= 30
    assert "".join(shown).replace(" ", "").replace("12", "").startswith(f"taskn{name}".replace(" ", "")[:41])


def test_lines_of_words_are_broken_between_them_and_begin_with_the_indent():
    assert wrapped("エージェント: one and 二つ more", 16, "    ") == ["エージェント:", "    one and 二つ", "    more"]
    assert wrapped("ééé abc", 20) == ["ééé abc"]
