"""Answers in named fields."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seatrial.env.parsers import XMLParser
from seatrial.errors import UsageError

PARSER = XMLParser(["reasoning", ("code", "answer")])
BOTH = "<reasoning>\nr\n</reasoning>\n<code>\nc\n</code>"

pieces = st.sampled_from(["<a>", "</a>", "<b>", "</b>", "x", " ", "\n", "\x1c", "\u00a0"])
texts = st.lists(pieces, max_size=14).map("".join)


@given(texts)
@example("<a>1</a><a> 2 </a><a>")
@settings(max_examples=100)
def test_fields_are_those_that_a_pattern_finds(text):
    matches = re.findall(r"<a>\s*(.*?)\s*</a>", text, re.DOTALL)
    parser = XMLParser(["a"], answer_field="a")
    assert parser.parse(text).a == (matches[0] if matches else None)
    assert parser.parse_answer(text) == (matches[-1] if matches else None)


words = st.text("ab/>{} \né", max_size=8).map(str.strip)


@given(words, words)
@settings(max_examples=50)
def test_what_is_written_is_read_again(reasoning, code):
    parsed = PARSER.parse(PARSER.format(reasoning=reasoning, code=code))
    assert (parsed.reasoning, parsed.code, parsed.answer) == (reasoning, code, None)


@given(texts)
@settings(max_examples=50)
def test_the_format_score_is_between_what_anything_gets_and_all(text):
    score = XMLParser(["a", "b"]).get_format_reward_func()([{"role": "assistant", "content": text}])
    assert 0.2 <= score <= 1.0


def test_the_answer_is_in_the_last_message_that_has_one():
    said = ["<answer>1</answer>", "<answer>2</answer> or <answer>3</answer>", "<reasoning>none</reasoning>"]
    completion = [{"role": "assistant", "content": each} for each in said]
    assert PARSER.parse_answer([*completion, {"role": "user", "content": "<answer>4</answer>"}]) == "2"
    assert PARSER.parse_answer(completion[2:]) is None
    assert XMLParser(["answer"], answer_field="other").parse_answer("<answer>1</answer>") is None


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (BOTH, 1.0),
        (f"Well: {BOTH}", 0.8),
        ("<reasoning>r</reasoning>", 0.6),
        ("<reasoning>r</reasoning><answer>1", 0.8),
        ("<reasoning>r", 0.4),
        ("nothing", 0.2),
    ],
)
def test_the_format_is_scored_by_fields_beginning_and_end(text, score):
    reward = PARSER.get_format_reward_func()
    assert reward([{"role": "assistant", "content": text}]) == pytest.approx(score)
    assert reward([]) == 0.0
    assert reward.__name__ == "format_reward_func"


def test_the_format_can_be_told_and_kept():
    assert PARSER.get_fields() == ["reasoning", "code"]
    assert PARSER.get_format_str() == ("<reasoning>\n...\n</reasoning>\n<[ code | answer ]>\n...\n</[ code | answer ]>")
    assert PARSER.format(reasoning="r", answer="c") == BOTH


def test_a_missing_value_is_named():
    with pytest.raises(UsageError, match="the field 'code' has no value; give it as code or answer"):
        PARSER.format(reasoning="r", code=None)


@pytest.mark.parametrize("fields", [["a", "a"], ["a", ("a", "b")], [()], [("a", 3)], [["a"]], [None]])
def test_fields_that_are_no_names_are_refused(fields):
    with pytest.raises(UsageError, match="field"):
        XMLParser(fields)


def test_long_white_space_takes_no_time():
    assert XMLParser(["a"]).parse("<a>" + " " * 1_000_000).a is None
