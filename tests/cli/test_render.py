"""How things are shown: aligned tables in a pipe and on a terminal, problems, JSON as it is stored."""

import sys

import pytest

from seatrial.cli.render import show_json, show_problem, show_table
from seatrial.model.base import to_json
from seatrial.model.task import Problem, Severity
from tests.cli.conftest import on_terminal


def table_on_terminal(*cells: str) -> str:
    rows = f"('one', 'two'), [{cells!r}]"
    return on_terminal((sys.executable, "-c", f"from seatrial.cli.render import show_table; show_table('All', {rows})"))


def test_a_table_in_a_pipe_has_aligned_columns_and_one_line_per_row(capsys: pytest.CaptureFixture[str]):
    show_table("never shown", ("one", "two", "n"), iter([("a", "b", "7"), ("wide", "tab\tand\nline" * 20, "12")]))
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
