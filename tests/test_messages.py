import pytest

from seatrial.messages import (
    Message,
    Picture,
    Reasoning,
    Refusal,
    ToolCall,
    ToolResult,
    Unknown,
    as_text,
    is_model_side,
    plain_words,
    split_system,
)

ASKED = Message("user", ("look", Picture("https://h/a.png"), "here"))


@pytest.mark.parametrize(
    ("arguments", "table"),
    [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("[1]", None), ("not JSON", None), ("", None), (None, None)],
)
def test_the_arguments_of_a_call_are_a_table_if_they_are_one(arguments, table):
    assert ToolCall("1", "f", arguments).table == table


def test_text_of_a_message_leaves_pictures_out():
    assert ASKED.text == "lookhere"
    assert plain_words(ASKED.parts) == "look\nhere"


@pytest.mark.parametrize(
    ("item", "models"),
    [
        (ASKED, False),
        (Message("assistant", ()), True),
        (Message("model", ()), True),
        (Unknown("user", "hologram", {}), False),
        (Unknown("assistant", "hologram", {}), True),
        (ToolCall("1", "f", "{}"), True),
        (ToolResult("1", ()), False),
        (Reasoning(""), True),
        (Refusal("no"), True),
    ],
)
def test_which_side_an_item_is_of(item, models):
    assert is_model_side(item) is models


def test_a_conversation_begins_with_what_the_system_says():
    first, second, later = Message("system", ("a",)), Message("developer", ("b",)), Message("system", ("c",))
    assert split_system((first, second, ASKED, later)) == ([first, second], (ASKED, later))
    assert split_system((ASKED,)) == ([], (ASKED,))


def test_where_something_was_asked_does_not_tell_values_apart():
    assert Picture("https://h/a.png", where="messages[0]") == Picture("https://h/a.png")
    assert Reasoning("hm", where="messages[0]") == Reasoning("hm")


def test_what_is_no_text_is_shown_as_json():
    assert (as_text("é"), as_text({"é": [1]})) == ("é", '{"é": [1]}')
