"""Answers of models, however they are given, and the tokens in them."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from seatrial.env.response import Response, as_response
from seatrial.errors import EmptyModelResponseError, InvalidModelResponseError, ModelError


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
