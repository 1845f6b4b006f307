"""Which files of a context do not count: the rules of `.dockerignore`, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import BuildError
from seatrial.tasks.build_context import IgnoreRules, read_ignore_rules


@pytest.mark.parametrize(
    ("patterns", "ignored", "kept"),
    [
        (["*/temp*"], ["some/temporary.txt", "some/temp", "some/temp/below"], ["temp", "a/b/temp"]),
        (["*/*/temp*"], ["a/b/temporary.txt"], ["a/temp", "a/b/c/temp"]),
        (["temp?"], ["tempa", "tempb/x"], ["temp", "tempab"]),
        (["**/*.go"], ["a.go", "a/b.go", "a/b/c.go"], ["a.gox", "go"]),
        (["**"], ["a", "a/b"], []),
        (["a/**"], ["a/b", "a/b/c"], ["a", "ab"]),
        (["a/**/z"], ["a/z", "a/b/z", "a/b/c/z"], ["az", "a/bz"]),
        (["**/a/b"], ["a/b", "x/y/a/b"], ["a/c"]),
        (["/foo/bar", "/rooted"], ["foo/bar", "rooted", "foo/bar/baz"], ["x/foo/bar", "x/rooted"]),
        (["./a//b/../c"], ["a/c"], ["a/b"]),
        (["*.md", "!README.md"], ["x.md"], ["README.md", "sub/x.md"]),
        (["*.md", "!README*.md", "README-secret.md"], ["README-secret.md", "x.md"], ["README.md"]),
        (["*.md", "README-secret.md", "!README*.md"], ["x.md"], ["README-secret.md"]),
        (["*", "!src", "src/*.o"], ["x", "src/a.o", "y/z"], ["src", "src/a.c", "src/b/c.o"]),
        (["[a-c]x", "[^0-9]y"], ["ax", "cx", "zy"], ["dx", "1y", "/y"]),
        (["a.b", "c+d"], ["a.b", "c+d"], ["axb", "ccd"]),
        (["\\*.txt"], ["*.txt"], ["a.txt"]),
        (["  spaced  ", "", "# comment"], ["spaced"], ["# comment"]),
        (["#hash"], [], ["#hash"]),
        (["dir"], ["dir", "dir/a/b"], ["other/dir"]),
        (["ümläut/*"], ["ümläut/ß"], ["umlaut/x"]),
        (["a*b*c"], ["abc", "axbxc", "abbc"], ["ab", "ac/b/c"]),
        ([], [], ["a"]),
    ],
)
def test_rules(patterns, ignored, kept):
    rules = IgnoreRules(patterns)
    assert [path for path in ignored if not rules.ignores(path)] == []
    assert [path for path in kept if rules.ignores(path)] == []


@pytest.mark.parametrize("pattern", ["!", "! ", "[", "[]", "a[b", "[z-a]", "**/" + "a/**/" * 9])
def test_patterns_that_cannot_be_ones(pattern):
    with pytest.raises(BuildError, match=r"\.dockerignore:2: "):
        IgnoreRules(["fine", pattern])


def test_no_pattern_takes_for_ever():
    """Whoever wrote it may mean harm: with backtracking this one takes years."""
    assert not IgnoreRules(["a*" * 60 + "b", "**/" + "?*" * 40 + "x"]).ignores("a" * 250)


def test_the_dockerfiles_own_rules_come_first(tmp_path):
    (tmp_path / ".dockerignore").write_text("a\n")
    assert read_ignore_rules(tmp_path, tmp_path / "Dockerfile").ignores("a")
    (tmp_path / "Dockerfile.dockerignore").write_text("b\n")
    assert not read_ignore_rules(tmp_path, tmp_path / "Dockerfile").ignores("a")
    assert read_ignore_rules(tmp_path, tmp_path / "Dockerfile").ignores("b")
    assert read_ignore_rules(tmp_path, tmp_path / "other").ignores("a")


@given(st.lists(st.text()), st.text(min_size=1))
def test_any_file_is_read_or_refused_with_its_place(lines, path):
    try:
        assert IgnoreRules(lines, "rules").ignores(path) in (True, False)
    except BuildError as error:
        assert str(error).startswith("rules:")


@given(st.lists(st.sampled_from(["a", "b", "a/b", "**/b", "*", "!a", "!a/b", "!**/b"])))
def test_the_last_rule_that_fits_decides(patterns):
    verdicts = [not pattern.startswith("!") for pattern in patterns if pattern.lstrip("!") in ("a", "a/b", "**/b", "*")]
    assert IgnoreRules(patterns).ignores("a/b") == (verdicts[-1] if verdicts else False)
