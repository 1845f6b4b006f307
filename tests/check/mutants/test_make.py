from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.check.answers.codecs import read_data, same
from seatrial.check.answers.forms import forms_of
from seatrial.check.answers.shots import shots_of, wrong_answer
from seatrial.check.answers.vocabulary import Vocabulary
from seatrial.check.mutants.make import MAX_MUTANTS, mutants_of, rewritten
from seatrial.model.output import OUTPUT_FORMATS, OutputFormat
from tests.check.answers.test_codecs import PLAIN, TEXTS

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
