"""Models that think first, always or maybe."""

import pytest

from seatrial.env.parsers import MaybeThinkParser, ThinkParser


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
