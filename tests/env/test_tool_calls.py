"""Calls of tools as models write them, well or not."""

import pytest

from seatrial.env.tool_calls import CalledTool, called_tools


@pytest.mark.parametrize(
    "call",
    [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "1", "name": "f", "arguments": "{}"},
    ],
)
def test_both_forms_are_read(call):
    assert called_tools({"role": "assistant", "tool_calls": [call]}) == [CalledTool("1", "f", "{}")]


@pytest.mark.parametrize("calls", [None, [], "text", {"id": "1"}])
def test_what_is_no_list_of_calls_calls_nothing(calls):
    assert called_tools({"role": "assistant", "tool_calls": calls}) == []


def test_a_call_without_anything_is_still_one_to_answer():
    assert called_tools({"role": "assistant", "tool_calls": [None, {"id": 3, "function": "f"}]}) == [
        CalledTool("", "", None),
        CalledTool("", "", None),
    ]


def test_only_the_model_calls_tools():
    assert called_tools({"role": "user", "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]}) == []
