"""Messages as authors write them, and conversations that share what they have in common."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.env.messages import Trunk, as_messages


class FromAnSdk:
    def model_dump(self, *, exclude_none):
        assert exclude_none
        return {"role": "tool", "content": "4", "tool_call_id": "a"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("hello", [{"role": "user", "content": "hello"}]),
        (None, []),
        ([], []),
        ({"role": "user", "content": "x"}, [{"role": "user", "content": "x"}]),
        (({"role": "user", "content": "x"},), [{"role": "user", "content": "x"}]),
        (FromAnSdk(), [{"role": "tool", "content": "4", "tool_call_id": "a"}]),
        ([FromAnSdk()], [{"role": "tool", "content": "4", "tool_call_id": "a"}]),
    ],
)
def test_messages_are_text_or_tables_or_objects_of_an_sdk(written, meant):
    assert as_messages(written) == meant


@pytest.mark.parametrize("written", [7, [7], ["hello"], [{"content": "no role"}], {"role": 3}])
def test_anything_else_is_a_type_error(written):
    with pytest.raises(TypeError, match="message"):
        as_messages(written)


def test_a_conversation_that_goes_on_is_kept_once():
    trunk: Trunk[str] = Trunk([])
    first, second = trunk.keep(["a", "b"]), trunk.keep(["a", "b", "c"])
    assert first.items is second.items
    assert (first.to_list(), second.to_list()) == (["a", "b"], ["a", "b", "c"])


def test_equal_messages_are_kept_once_however_often_they_are_parsed():
    trunk: Trunk[dict[str, str]] = Trunk([])
    first = trunk.keep([{"content": "x"}])
    second = trunk.keep([{"content": "x"}, {"content": "y"}])
    assert first.items[0] is second.items[0]


def test_an_earlier_conversation_survives_one_that_takes_another_way():
    trunk: Trunk[str] = Trunk([])
    first, other, again = trunk.keep(["a", "b"]), trunk.keep(["a", "x"]), trunk.keep(["a"])
    assert [each.to_list() for each in (first, other, again)] == [["a", "b"], ["a", "x"], ["a"]]


@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=8))
def test_every_sequence_comes_back_as_it_was_given(sequences):
    lists: Trunk[int] = Trunk([])
    numbers: Trunk[int] = Trunk(array("q"))
    for trunk in (lists, numbers):
        kept = [trunk.keep(sequence) for sequence in sequences]
        assert [prefix.to_list() for prefix in kept] == sequences
