"""The plain parser: messages by their roles, and the text of the last one."""

from types import SimpleNamespace

import pytest

from seatrial.env.parsers import Parser

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
