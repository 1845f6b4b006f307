"""LaTeX tables: rows with as many cells as columns, and nothing of a stranger's that LaTeX would obey."""

import re

from hypothesis import given
from hypothesis import strategies as st

from seatrial.report.document import ReportOptions, make_document
from seatrial.report.latex import latex_text, write_latex
from tests.report.hostile import NASTY, arms_named, mixed_arms, written
from tests.report.test_comment import two_agents

COMMANDS = re.compile(
    r"\\(text(backslash|asciicircum|asciitilde|less|greater|bar|asciigrave)\{\}|[{}$&#_%])|\{[\[\]*]\}|-\{\}"
)


def tables(job, **options):
    return written(write_latex, make_document([job], ReportOptions(**options))).decode()


def check(text):
    """Every table is closed, and every row of it has a cell for each column."""
    found = re.findall(r"\\begin\{tabular\}\{([lr]+)\}\n(.*?)\\end\{tabular\}", text, re.DOTALL)
    for columns, body in found:
        rows = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert rows
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(columns) - 1}
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == len(found)
    return found


def test_arms_and_comparisons_with_captions_that_say_what_they_are():
    text = tables(two_agents(), level=0.9)
    assert len(check(text)) == 2
    assert r"\toprule" in text
    assert "means over 4 tasks of 8 scored of 8 planned trials, with 90 \\% intervals (Student's t" in text
    assert "A trial passes with a reward of at least 1." in text
    assert "with 90 \\% intervals (every difference that the sign-flip test does not reject)" in text
    assert r"new & old & 0.0 & $-$" in text


def test_one_arm_has_no_table_of_comparisons():
    assert len(check(tables(arms_named("x")[0].job))) == 1
    assert r"b & - & - & - & 0 of 4" in tables(mixed_arms()[0].job)


def test_hostile_names_are_only_printed():
    text = tables(arms_named(NASTY)[0].job, title=NASTY)
    check(text)
    assert r"\textbackslash{}@team \#12" in text


@given(st.text(max_size=60))
def test_what_is_left_without_our_own_commands_means_nothing_to_latex(text):
    assert not set("\\{}$&#_%^~[]*\n") & set(COMMANDS.sub("", latex_text(text)))
    assert "--" not in latex_text(text)
