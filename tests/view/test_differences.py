import re

from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.view.differences import Gap, Row, compare_lines, show_difference
from tests.view.rendering.tame_html import check_tame

LINES = st.lists(st.sampled_from(["a", "b", "c c", "c d", ""]), max_size=30)


@given(LINES, LINES)
@settings(max_examples=100, deadline=None)
def test_both_versions_can_be_read_off_the_rows(before, after):
    old, new = list[str](), list[str]()
    for row in compare_lines(before, after):
        if isinstance(row, Gap):
            old += before[len(old) : len(old) + row.lines]
            new += after[len(new) : len(new) + row.lines]
            continue
        for side, lines in ((row.before, old), (row.after, new)):
            if side:
                lines.append("".join(text for _, text in side.pieces))
                assert side.number == len(lines)
        assert row.same == (row.before is not None and row.after is not None and row.before.pieces == row.after.pieces)
    # Where nothing follows the last change, a gap stands for the rest.
    assert (old, new) == (before, after)


def test_only_the_words_that_changed_are_marked():
    html = show_difference(b"one\nreward = 0.5 # old\nend\n", b"one\nreward = 0.75 # old\nend\n", "out.toml")
    assert '<td class="old">reward = 0.<del>5</del> # old</td>' in html
    assert '<td class="new">reward = 0.<ins>75</ins> # old</td>' in html
    assert "out.toml: 27 bytes before, 28 bytes after" in check_tame(html)


def test_what_is_the_same_is_folded_away_but_for_a_few_lines():
    lines = [f"line {number}" for number in range(100)]
    rows = list(compare_lines(lines, [*lines[:50], "new", *lines[50:]]))
    assert [row.lines for row in rows if isinstance(row, Gap)] == [47, 47]
    assert [row.after.number for row in rows if isinstance(row, Row) and row.after] == [48, 49, 50, 51, 52, 53, 54]


def test_files_that_were_not_there_binary_ones_and_the_same():
    assert "x: nothing changed" in show_difference(b"a", b"a", "x")
    assert "x: not there before, 2 bytes after" in show_difference(None, b"a\n", "x")
    assert "x: 2 bytes before, not there after" in show_difference(b"a\n", None, "x")
    assert "binary, so no lines are compared; 2 bytes before" in show_difference(b"\0a", b"a", "x")
    assert "more than 1,048,576 bytes" in show_difference(b"a", b"a" * (2**20 + 1), "x")


def test_ends_of_lines_can_be_seen_where_they_changed():
    assert "<del>␍</del>" in show_difference(b"a\r\nb\r\n", b"a\nb\n", "x")
    assert "␍" not in show_difference(b"a\r\nb\r\n", b"a\r\nc\r\n", "x")
    assert "no newline at the end" in show_difference(b"a\n", b"a", "x")


@given(st.binary(max_size=200), st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_nothing_of_a_stranger_gets_through(before, after):
    check_tame(show_difference(before, after, "<script>"))
    check_tame(show_difference(b"<script>\n" + before, None, "<script>"))


def test_large_and_repetitive_files_are_bounded():
    before = "\n".join(str(number % 7) + " a" * 100 for number in range(600)).encode()
    after = "\n".join(str(number % 5) + " b" * 90 for number in range(600)).encode()
    html = show_difference(before, after, "x")
    assert len(re.findall("<tr class", html)) <= 1_500
    many = "\n".join(map(str, range(5_000))).encode()
    assert "There is more of it than these 1,500 lines." in show_difference(None, many, "x")
