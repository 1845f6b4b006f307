"""Output of programs for models to read."""

import pytest

from seatrial.env.tool_output import readable, shortened


@pytest.mark.parametrize(
    ("stdout", "stderr", "said"),
    [("a\n", "", "a"), ("a\n", "b\n", "a\nstderr:\nb"), ("", "b", "stderr:\nb"), ("", " ", "(no output)")],
)
def test_both_streams_are_one_text(stdout, stderr, said):
    assert readable(stdout, stderr) == said


def test_a_long_text_loses_its_middle():
    assert shortened("abcdefghij", 4) == "ab\n[… 6 characters left out …]\nij"
    assert shortened("abcd", 4) == "abcd"
    assert len(readable("x" * 10**6, "")) < 51_000
