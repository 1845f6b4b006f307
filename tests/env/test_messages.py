"""Messages as authors write them, and conversations that share what they have in common."""

import copy
import json
import pickle
from array import array
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from seatrial.env.messages import (
    AssistantMessage,
    ChatMessage,
    Response,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Trunk,
    UserMessage,
    as_messages,
    as_response,
    called_tools,
)
from seatrial.errors import EmptyModelResponseError, InvalidModelResponseError, ModelError


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


@pytest.mark.parametrize(
    "call",
    [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        {"id": "1", "name": "f", "arguments": "{}"},
    ],
)
def test_both_forms_of_calls_are_read(call):
    assert called_tools({"role": "assistant", "tool_calls": [call]}) == [ToolCall(id="1", name="f", arguments="{}")]


@pytest.mark.parametrize("calls", [None, [], "text", {"id": "1"}])
def test_what_is_no_list_of_calls_calls_nothing(calls):
    assert called_tools({"role": "assistant", "tool_calls": calls}) == []


def test_a_call_without_anything_is_still_one_to_answer():
    assert called_tools({"role": "assistant", "tool_calls": [None, {"id": 3, "function": "f"}]}) == [
        ToolCall(id="", name="", arguments=None),
        ToolCall(id="", name="", arguments=None),
    ]


def test_only_the_model_calls_tools():
    assert called_tools({"role": "user", "tool_calls": [{"id": "1", "name": "f", "arguments": "{}"}]}) == []


def completion(message: dict[str, Any] | None = None, **choice: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "hi", "refusal": None, **(message or {})}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "message": said, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


@pytest.mark.parametrize(
    "given",
    [
        "hi",
        {"role": "assistant", "content": "hi"},
        completion(),
        ChatCompletion.model_validate(completion()),
        Response({"role": "assistant", "content": "hi"}),
    ],
)
def test_text_a_message_a_table_and_an_sdk_s_object_are_answers(given):
    assert as_response(given).message == {"role": "assistant", "content": "hi"}


def test_what_an_answer_says_beside_its_message_is_kept():
    response = as_response(completion({"reasoning_content": "hm"}, finish_reason="length"))
    assert response.message["reasoning_content"] == "hm"
    assert (response.id, response.model, response.finish_reason) == ("c1", "m", "length")
    assert response.is_truncated
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.output_tokens) == (3, 2)
    assert response.tokens is None


@pytest.mark.parametrize("given", [None, 7, {}, [], {"choices": [{"text": "old"}]}, {"role": "user", "content": "x"}])
def test_anything_else_is_an_error_of_the_model(given):
    with pytest.raises(InvalidModelResponseError):
        as_response(given)


@pytest.mark.parametrize("choices", [[], None, "x", [None]])
def test_an_answer_without_choices_is_empty(choices):
    with pytest.raises(EmptyModelResponseError) as error:
        as_response({"choices": choices})
    assert isinstance(error.value, ModelError)


LOGPROBS = {"content": [{"token": "h", "logprob": -0.5}, {"token": "i", "logprob": -1}]}


def tokens_of(given: dict[str, Any]) -> tuple[list[int], list[int], list[float]]:
    tokens = as_response(given).tokens
    assert tokens is not None
    return list(tokens.prompt_ids), list(tokens.completion_ids), list(tokens.completion_logprobs)


def test_token_ids_and_logprobs_are_read_where_servers_put_them():
    beside = {**completion(token_ids=[5, 6], logprobs=LOGPROBS), "prompt_token_ids": [1, 2]}
    within = completion(token_ids=[5, 6], prompt_token_ids=[1, 2], logprobs=LOGPROBS)
    assert tokens_of(beside) == tokens_of(within) == ([1, 2], [5, 6], [-0.5, -1.0])


def test_tokens_that_were_asked_for_as_ids_are_ids():
    as_ids = {"content": [{"token": "token_id:5", "logprob": -0.5}, {"token": "token_id:6", "logprob": -1.0}]}
    assert tokens_of(completion(logprobs=as_ids)) == ([], [5, 6], [-0.5, -1.0])


def test_logprobs_without_ids_are_kept():
    assert tokens_of(completion(logprobs=LOGPROBS)) == ([], [], [-0.5, -1.0])


@pytest.mark.parametrize("strange", [{"token_ids": ["a"]}, {"logprobs": {"content": "x"}}, {"logprobs": []}])
def test_strange_tokens_count_as_none(strange):
    assert as_response(completion(**strange)).tokens is None


@pytest.mark.parametrize("role", ["system", "user", "tool", None])
def test_what_the_model_says_is_the_assistant_s_whatever_role_it_gives_itself(role):
    assert as_response(completion({"role": role})).message == {"role": "assistant", "content": "hi"}
