"""How things are shown: aligned tables in a pipe and on a terminal, problems, JSON as it is stored."""

import sys
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.analysis.tables import Table
from seatrial.cli.screen import (
    GAP,
    OUTCOME_COLOURS,
    Line,
    lay_out,
    paint,
    paint_outcome,
    show_json,
    show_problem,
    show_table,
    wrapped,
)
from seatrial.model.base import to_json
from seatrial.model.loaded_task import Problem, Severity
from seatrial.model.outcome import Outcome
from seatrial.report.text import shown_width
from tests.cli.conftest import on_terminal


def table_on_terminal(*cells: str) -> str:
    imports = "from seatrial.analysis.tables import Table; from seatrial.cli.screen import show_table"
    return on_terminal((sys.executable, "-c", f"{imports}; show_table('All', Table(('one', 'two'), [{cells!r}]))"))


def test_a_table_in_a_pipe_has_aligned_columns_and_one_line_per_row(capsys: pytest.CaptureFixture[str]):
    rows = [("a", "b", "7"), ("wide", "tab\tand\nline" * 20, "12")]
    show_table("never shown", Table(("one", "two", "n"), rows))
    header, first, second = capsys.readouterr().out.splitlines()
    assert header.startswith("one   two  ")
    assert first.startswith("a     b  ")
    assert second.startswith("wide  tab and line")
    assert header.index("n", 10) == first.index("7") == second.index("12") + 1


def test_a_table_on_a_terminal_has_a_title_and_aligned_columns():
    title, header, row = table_on_terminal("größe", "b").splitlines()
    assert "All" in title
    assert "one    two" in header
    assert row == "größe  b"


def test_a_table_on_a_terminal_shows_brackets_as_they_are():
    assert "[red]x[/red]" in table_on_terminal("[red]x[/red]", "[/]")


def test_a_strangers_text_does_not_steer_the_terminal():
    """Evidence may quote an agent; an escape sequence in it could rewrite what a reader sees."""
    shown = table_on_terminal("\x1b]0;title\x07", "\x1b[2Jgone")
    assert "\x1b]0;" not in shown
    assert "\x1b[2J" not in shown
    assert "gone" in shown


@pytest.mark.parametrize("severity", ["error", "warning", "note"])
def test_a_problem_is_a_line_and_its_fix_another(capsys: pytest.CaptureFixture[str], severity: Severity):
    show_problem(
        "volts", Problem(code="no-x", severity=severity, message="is odd", file="task.toml", key="a.b", fix="mend it")
    )
    assert capsys.readouterr().out == f"volts: {severity}[no-x] task.toml: a.b: is odd\n    fix: mend it\n"


def test_a_problem_without_key_and_fix_is_one_line(capsys: pytest.CaptureFixture[str]):
    show_problem("volts", Problem(code="no-x", severity="note", message="is odd", file="tests/"))
    assert capsys.readouterr().out == "volts: note[no-x] tests/: is odd\n"


def test_json_is_shown_as_it_is_stored(capsys: pytest.CaptureFixture[str]):
    problem = Problem(code="no-x", severity="note", message="größe 😀", file="tests/")
    show_json(problem)
    assert capsys.readouterr().out.encode() == to_json(problem)


TEXT = "a description that is far too long for the screen that it has to be shown on"
NUMBERS = ["-", "1.000", "<1.000", "0.676 to 1.000", "100.0%", "8 of 8", "0.0001 USD", "0 (or 1)"]


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
