import copy
import json
import pickle

import orjson
import pytest

from seatrial.env.chat_message import AssistantMessage, ChatMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from seatrial.env.messages import as_messages
from seatrial.env.response import as_response

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}


def test_keys_are_attributes_and_attributes_are_keys():
    message = UserMessage(content="hello")
    message.content = "goodbye"
    message.mood = "fine"
    assert message == {"role": "user", "content": "goodbye", "mood": "fine"}
    assert (message.role, message.content, message["mood"]) == ("user", "goodbye", "fine")


def test_usual_fields_that_are_missing_are_none_and_others_are_errors():
    message = AssistantMessage(content="x")
    assert message.tool_calls is None
    assert message.reasoning_content is None
    assert "tool_calls" not in message
    with pytest.raises(AttributeError, match=r"AssistantMessage has no 'tol_calls'; it has role, content"):
        _ = message.tol_calls


def test_messages_have_the_class_of_their_role():
    roles = ["system", "user", "assistant", "tool", "developer"]
    made = as_messages([{"role": role, "content": ""} for role in roles])
    assert [type(each) for each in made] == [SystemMessage, UserMessage, AssistantMessage, ToolMessage, ChatMessage]
    assert as_messages(made)[1] is made[1]


@pytest.mark.parametrize("given", [CALL, {"id": "1", "name": "add", "arguments": '{"a": 1}'}])
def test_a_tool_call_is_read_in_both_forms_and_sent_in_one(given):
    call = AssistantMessage(tool_calls=[given]).tool_calls[0]
    assert call == CALL
    assert (call.name, call.arguments, call.id) == ("add", '{"a": 1}', "1")
    assert (call["name"], call.function.name, call["function"]["arguments"]) == ("add", "add", '{"a": 1}')
    assert call.get("name") == "add"
    with pytest.raises(KeyError):
        _ = call["nothing"]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])  # noqa: S301
def test_messages_survive_copies(again):
    message = AssistantMessage(content=None, tool_calls=[ToolCall(CALL)])
    other = again(message)
    assert (type(other), other, other.tool_calls[0].name) == (AssistantMessage, message, "add")


def test_messages_are_written_as_the_tables_they_are():
    message = AssistantMessage(content="x", tool_calls=[CALL])
    plain = {"role": "assistant", "content": "x", "tool_calls": [CALL]}
    assert json.loads(json.dumps(message)) == orjson.loads(orjson.dumps(message)) == plain
    assert message.model_dump() == plain
    assert type(message.model_dump()) is dict
    assert message.model_copy(update={"content": "y"}).content == "y"


def test_a_system_message_is_read_from_a_file(tmp_path):
    (tmp_path / "system.txt").write_text("be kind")
    assert SystemMessage.from_path(tmp_path / "system.txt") == {"role": "system", "content": "be kind"}


def test_an_answer_is_such_a_message():
    answer = as_response({"choices": [{"message": {"content": None, "tool_calls": [CALL]}}]})
    assert isinstance(answer.message, AssistantMessage)
    assert answer.message.tool_calls[0].name == "add"
    assert isinstance(as_response("text").message, AssistantMessage)
