import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.check.answers import Vocabulary, read_data, same
from seatrial.check.code_mutants import (
    MAX_MUTANTS,
    PythonMutants,
    TextCodeMutants,
    TextMutants,
    is_other_code,
    mutants_of,
    read_python,
    rewritten,
)
from seatrial.check.mutants import Mutant
from seatrial.check.variants import forms_of, shots_of, wrong_answer
from seatrial.model.output import OUTPUT_FORMATS, OutputFormat
from tests.check.test_answers import PLAIN, TEXTS

NAMES = [f"/app/answer.{name}" for name in (*OUTPUT_FORMATS, "py", "c", "sh", "bin")]
WORDS = Vocabulary("Write `a`, `b` and `c` in order, each `x` or `y`, at most 3.", {})
DATA_FORMATS: list[OutputFormat] = list(TEXTS)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), st.sampled_from(NAMES), st.text(max_size=20))
def test_no_bytes_make_it_fail(content, path, instruction):
    words = Vocabulary(instruction, {"verify.py": content})
    for make in (mutants_of, forms_of, shots_of, wrong_answer):
        make(content, path, None, words)
    rewritten(content, path, None)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abcdefg"), PLAIN, max_size=5), st.sampled_from(DATA_FORMATS))
def test_mutants_can_be_read_and_differ_from_the_answer_and_from_each_other(value, answer_format):
    content = read_as(value, answer_format)
    original = read_data(content, answer_format)
    made = mutants_of(content, "/app/answer", answer_format, WORDS)
    assert original is not None or not made
    assert len({mutant.content for mutant in made}) == len(made) <= MAX_MUTANTS
    for mutant in made:
        changed = read_data(mutant.content, answer_format)
        assert changed is not None
        assert original is not None
        assert not same(changed.value, original.value)
    assert made == mutants_of(content, "/app/answer", answer_format, WORDS)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from("abcdefg"), PLAIN, max_size=5), st.sampled_from(DATA_FORMATS))
def test_other_forms_mean_the_same(value, answer_format):
    content = read_as(value, answer_format)
    original = read_data(content, answer_format)
    for form in forms_of(content, "/app/answer", answer_format, WORDS):
        if original is not None:
            again = read_data(form.content, answer_format)
            assert again is not None
            assert again.value == original.value


def read_as(value, answer_format: OutputFormat) -> bytes:
    """A value in a format, or some text of that format where it cannot say the value."""
    answer = read_data(TEXTS[answer_format].encode(), answer_format)
    assert answer is not None
    return answer.written([value] if answer_format == "jsonl" else value) or TEXTS[answer_format].encode()


def test_a_large_answer_has_few_mutants():
    content = b'{"a": 1, "b": "' + b"y" * 900_000 + b'"}'
    assert len(mutants_of(content, "/app/answer.json", None, WORDS)) <= 17
    assert mutants_of(b" " * 2**21, "/app/answer.json", None, WORDS) == []


def test_an_answer_that_is_written_otherwise_has_a_control():
    assert rewritten(b'{"a":  1}', "/app/answer.json", None) == b'{"a": 1}'
    assert rewritten(b'{"a": 1}', "/app/answer.json", None) is None
    assert rewritten(b"text", "/app/answer.txt", None) is None


SOURCE = '''\
"""A module."""


def is_even(number: int) -> bool:
    """Whether it is."""
    if number > 247:
        raise ValueError("%d is too large" % number)
    return number % 2 == 0


class Box:
    def area(self): return self.width * self.height


def _log(text):
    print(text)


def nothing():
    """Does nothing."""
'''
INSTRUCTION = "Write `is_even`, for numbers up to 247, and `area` of a Box."


def mutants(source: str = SOURCE, instruction: str = INSTRUCTION) -> list[Mutant]:
    tree = read_python(source.encode())
    assert tree is not None
    return [mutant for made in PythonMutants(source, tree, Vocabulary(instruction, {})).rounds() for mutant in made]


def test_functions_do_nothing_those_that_are_named_first():
    made = [(mutant.field, mutant.named) for mutant in mutants() if mutant.kind == "does-nothing"]
    assert made == [("is_even", True), ("Box.area", True), ("_log", False)]


def test_a_function_of_one_line_can_do_nothing_too():
    content = next(mutant.content for mutant in mutants() if mutant.field == "Box.area")
    assert b"    def area(self): return None\n" in content


def test_a_predicate_always_says_the_same():
    made = {mutant.kind for mutant in mutants() if mutant.field == "is_even"}
    assert made == {"does-nothing", "always-true", "always-false", "slip"}


def test_slips_are_on_what_the_instruction_speaks_of():
    changes = [mutant.change for mutant in mutants() if mutant.kind == "slip"]
    assert changes == [
        "in `is_even`, 247 is 248 (line 6)",
        "in `is_even`, the condition in line 6 is reversed",
        "in `Box.area`, the operator in line 12 is another one",
    ]


def test_each_is_python_that_means_something_else():
    original = ast.dump(ast.parse(SOURCE))
    dumps = [ast.dump(ast.parse(mutant.content)) for mutant in mutants()]
    assert original not in dumps
    assert len(set(dumps)) == len(dumps)


def test_letters_beyond_ascii_before_a_change_do_not_move_it():
    made = mutants('def area(): return "äöü", 3 * 247\n')
    assert any(b'"\xc3\xa4\xc3\xb6\xc3\xbc", 3 * 248' in mutant.content for mutant in made)


def test_what_is_no_python_is_not_read():
    assert read_python(b"def f(:") is None
    assert read_python(b"\0") is None
    assert read_python(b"(" * 10_000) is None


OTHER_CODE_SOURCE = """\
// at most 252 bytes
int frame(const char *data, int size) {
    if (size == 252) { return -1; }
    int unused = 17;
    return size;
}
int helper(int x) { return x; }
"""
OTHER_CODE_WORDS = Vocabulary("Write `frame`; a payload has at most 252 bytes.", {})


def changes(source: str = OTHER_CODE_SOURCE, words: Vocabulary = OTHER_CODE_WORDS) -> dict[str, bytes]:
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


PLAIN_TEXT_WORDS = Vocabulary("Write `total` and the names `alder`, `birch`, `cedar`.", {})


def plain_text_changes(text: str) -> list[str]:
    return [mutant.change for round_ in TextMutants(text, PLAIN_TEXT_WORDS).rounds() for mutant in round_]


def test_a_lone_number_is_made_wrong():
    assert plain_text_changes("42\n") == [
        "the number is 420 instead of 42",
        "the number is 50 instead of 42",
        "the number is 63 instead of 42",
        "the number is -42 instead of 42",
    ]


def test_numbers_have_the_label_before_them():
    assert plain_text_changes("total: 12.5\nother = 8\n")[:2] == [
        "total is 125.0 instead of 12.5",
        "other is 80 instead of 8",
    ]
    assert plain_text_changes("<a><width unit='7'>3.5</width></a>")[:2] == [
        "unit is 70 instead of 7",
        "width is 35.0 instead of 3.5",
    ]


def test_a_line_of_text_becomes_another():
    assert plain_text_changes("flag{abc}\n") == ["the text is '}cba{galf' instead of 'flag{abc}'"]


def test_lists_of_known_names_lose_a_line():
    made = plain_text_changes("alder\nbirch\ncedar\n")
    assert made == ["line 3 of 3 is missing", "line 1 of 3 is missing", "line 2 of 3 is missing"]


def test_prose_dates_versions_and_paths_stay():
    assert plain_text_changes("The pump was tried at 42 bar for 17 minutes, and held.\n") == []
    assert plain_text_changes("2024-05-06 10:20\nv1.2.3\n/opt/7\n") == []
