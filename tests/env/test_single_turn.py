"""SingleTurnEnv: one answer, and the rollout is over."""

import asyncio

import pytest

import seatrial as vf
from seatrial.env.single_turn import SingleTurnEnv
from seatrial.errors import UsageError
from tests.env.worlds import echo, evaluate, only


def test_the_model_answers_once():
    rubric = vf.Rubric([lambda completion, answer: float(completion[-1]["content"] == answer)])
    env = SingleTurnEnv(dataset=[{"question": "x", "answer": "you said x"}], rubric=rubric, system_prompt="Repeat.")
    output = only(evaluate(env, echo))
    assert output["completion"] == [{"role": "assistant", "content": "you said x"}]
    assert (output["reward"], output["stop_condition"], len(output["prompt"])) == (1.0, "max_turns_reached", 2)


def test_calls_of_tools_are_not_answered():
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    output = only(evaluate(SingleTurnEnv(dataset=[{"question": "x"}]), lambda _: {"choices": [{"message": message}]}))
    assert (output["error"], len(output["completion"])) == (None, 1)


def test_rows_of_plain_text_are_asked_as_a_user_and_scored_as_text():
    asked = []

    def model(messages):
        asked.append(messages)
        return "there was a king"

    env = SingleTurnEnv(
        message_type="completion",
        dataset=[{"prompt": "Once upon a time"}],
        rubric=vf.Rubric([lambda completion: float(completion.endswith("king"))]),
    )
    output = only(evaluate(env, model))
    assert (output["completion"], output["reward"]) == ("there was a king", 1.0)
    assert asked == [[{"role": "user", "content": "Once upon a time"}]]


def test_the_environment_has_nothing_to_say():
    env = SingleTurnEnv(dataset=[{"question": "x"}])
    with pytest.raises(NotImplementedError, match="SingleTurnEnv has one turn"):
        asyncio.run(env.env_response([], vf.State()))
    with pytest.raises(UsageError, match="message_type is 'text'"):
        SingleTurnEnv(message_type="text", dataset=[{"question": "x"}])  # type: ignore[arg-type]
