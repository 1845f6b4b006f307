"""The plain parser: messages by their roles, and the text of the last one."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seatrial.env.parsers import (
    MaybeThinkParser,
    Parser,
    ThinkParser,
    XMLParser,
    extract_boxed_answer,
    extract_hash_answer,
    strip_non_numeric,
    strip_think,
)
from seatrial.errors import UsageError

SAID = [
    {"role": "system", "content": "s"},
    {"role": "user", "content": "u"},
    {"role": "assistant", "content": "first"},
    {"role": "tool", "content": "t"},
    SimpleNamespace(role="assistant", content="last"),
]


def test_the_answer_is_what_the_model_said_last():
    assert Parser().parse_answer(SAID) == "last"
    assert Parser(str.upper).parse_answer(SAID) == "LAST"
    assert Parser(len).parse_answer("text") == 4
    assert Parser().parse_answer(SAID[:2]) is None


def test_messages_are_found_by_their_roles():
    parser = Parser()
    assert parser.get_assistant_messages(SAID) == [SAID[2], SAID[4]]
    assert parser.get_system_messages(SAID) == [SAID[0]]
    assert parser.get_user_messages(SAID) == [SAID[1]]
    assert parser.get_tool_messages(SAID) == [SAID[3]]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}], "a b"),
        ([SimpleNamespace(text="a "), SimpleNamespace(url="x"), {"type": "text"}], "a"),
        (3, ""),
    ],
)
def test_the_text_of_a_message_is_that_of_its_parts(content, text):
    assert Parser().parse_answer([{"role": "assistant", "content": content}]) == text


def test_any_format_will_do():
    reward = Parser().get_format_reward_func()
    assert (reward.__name__, reward(completion=SAID, answer="x")) == ("format_reward_func", 1.0)


balanced = st.recursive(
    st.text("ab+ ", max_size=4), lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}")
)


@given(st.text("ab{}", max_size=8), balanced, st.text("ab}", max_size=8))
@settings(max_examples=40)
def test_the_last_box_is_read_to_its_own_brace(before, inside, after):
    assert extract_boxed_answer(rf"{before}\boxed{{{inside}}}{after}") == inside


@pytest.mark.parametrize("text", ["", "no box", r"\boxed{never closed", r"\boxed{1} \boxed{{2}", r"\boxed 1"])
def test_without_a_whole_last_box_the_text_stands_or_nothing(text):
    assert extract_boxed_answer(text) == text
    assert extract_boxed_answer(text, strict=True) == ""


@pytest.mark.parametrize(
    ("text", "found"), [("so #### 4 ", "4"), ("#### 4 #### 5", "4"), ("### 4", "### 4"), ("a ####", "")]
)
def test_what_follows_the_hashes(text, found):
    assert extract_hash_answer(text) == found


def test_digits_and_points():
    assert strip_non_numeric("$1,234.50 each") == "1234.50"


@pytest.mark.parametrize(
    ("text", "found"),
    [("<think>a</think> b ", "b"), (" plain ", "plain"), ("a</think>b</think>c", "c"), ("<think>a</think>", "")],
)
def test_what_follows_the_thinking(text, found):
    assert strip_think(text) == found


@pytest.mark.parametrize(
    ("text", "always", "maybe"),
    [
        ("<think>a</think> b", "b", "b"),
        ("b ", "", "b"),
        ("<think>a", "", "<think>a"),
        ("x</think>y</think> z", "z", "z"),
    ],
)
def test_the_answer_comes_after_the_thinking(text, always, maybe):
    assert (ThinkParser().parse(text), MaybeThinkParser().parse(text)) == (always, maybe)
    assert ThinkParser(len).parse_answer([{"role": "assistant", "content": text}]) == len(always)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        (" <think>a</think>b", 1.0),
        ("<think>a</think> ", 1.0),
        ("<think>a</think>", 0.0),
        ("b<think>a</think>b", 0.0),
        ("<think>a</think>b</think>c", 0.0),
        ("a</think>b", 0.0),
    ],
)
def test_the_format_is_thinking_once_and_then_speaking(text, score):
    said = [{"role": "assistant", "content": text}]
    assert ThinkParser().get_format_reward_func()(said) == score


def test_the_format_is_judged_in_each_message():
    said = [{"role": "assistant", "content": text} for text in ("<think>a</think>b", "b")]
    assert ThinkParser().get_format_reward_func()(said, state={}) == 0.5
    assert ThinkParser().get_format_reward_func()([]) == 0.0


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
