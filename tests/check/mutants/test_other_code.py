import pytest

from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.other_code import TextCodeMutants, is_other_code

SOURCE = """\
// at most 252 bytes
int frame(const char *data, int size) {
    if (size == 252) { return -1; }
    int unused = 17;
    return size;
}
int helper(int x) { return x; }
"""
WORDS = Vocabulary("Write `frame`; a payload has at most 252 bytes.", {})


def changes(source: str = SOURCE, words: Vocabulary = WORDS) -> dict[str, bytes]:
    made = [mutant for round_ in TextCodeMutants(source, "frame.c", words).rounds() for mutant in round_]
    return {mutant.change: mutant.content for mutant in made}


def test_named_functions_are_emptied_and_numbers_of_the_instruction_are_one_off():
    assert list(changes()) == [
        "`frame` does nothing",
        "line 3 of `frame.c` has `253` in place of `252`",
        "line 3 of `frame.c` has `!=` in place of `==`",
    ]


def test_only_the_body_goes():
    content = changes()["`frame` does nothing"]
    assert b"int frame(const char *data, int size) { }\nint helper" in content


def test_a_body_that_never_ends_is_left_alone():
    assert "`frame` does nothing" not in changes("int frame(int x) { if (x) {")


def test_shell_has_comparisons_of_its_own():
    made = changes('#!/bin/sh\nif [ "$1" -gt 3 ]; then exit 1; fi\n')
    assert list(made) == ["line 2 of `frame.c` has `-le` in place of `-gt`"]


@pytest.mark.parametrize(
    ("path", "is_code"), [("/a/b.rs", True), ("/a/B.SH", True), ("/a/sh", False), ("/a.c/b", False)]
)
def test_code_is_known_by_its_name(path, is_code):
    assert is_other_code(path) == is_code
