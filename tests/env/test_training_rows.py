"""Rollouts as examples for training: a turn each, or a conversation as one sequence."""

import pytest

import seatrial as vf
from seatrial.env.training_rows import interleaved, per_turn

# What the model is asked with and says in each turn: the second goes on from the first, the third does not.
TURNS = [([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([1, 9], [7])]


class Talking(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **_):
        return "go on"


def roll_out(turns=TURNS, **more):
    told = iter(turns)

    async def model(messages):
        prompt, completion = next(told)
        content = [{"token": str(token), "logprob": -token / 10} for token in completion]
        choice = {"message": {"role": "assistant", "content": "said"}, "finish_reason": "stop"}
        return {"choices": [{**choice, "token_ids": completion, "logprobs": {"content": content}}]} | {
            "prompt_token_ids": prompt
        }

    env = Talking(dataset=[{"prompt": "q"}], rubric=vf.Rubric([lambda: 0.5]), max_turns=len(turns), **more)
    return env.evaluate_sync(model, "m")["outputs"][0]


def test_each_turn_is_an_example():
    rows = per_turn(roll_out())
    assert [(row["prompt_ids"], row["completion_ids"]) for row in rows] == TURNS
    assert [row["turns"] for row in rows] == [[0], [1], [2]]
    assert rows[1]["completion_logprobs"] == pytest.approx([-0.5, -0.6])
    assert {(row["reward"], row["advantage"]) for row in rows} == {(0.5, 0.0)}


def test_turns_that_go_on_are_one_sequence_in_which_the_environment_is_masked():
    first, second = interleaved(roll_out())
    assert (first["prompt_ids"], first["prompt_mask"]) == ([1, 2], [0, 0])
    assert first["completion_ids"] == [3, 4, 5, 6]
    assert first["completion_mask"] == [1, 0, 1, 1]
    assert first["completion_logprobs"] == pytest.approx([-0.3, 0.0, -0.5, -0.6])
    assert (second["prompt_ids"], second["completion_ids"]) == ([1, 9], [7])
    assert (first["turns"], second["turns"]) == ([0, 1], [2])


def test_a_conversation_ends_where_a_trainer_takes_no_more():
    output = roll_out(max_seq_len=5)
    (row,) = interleaved(output)
    assert (output["stop_condition"], output["is_truncated"], row["is_truncated"]) == (
        "max_seq_len_reached",
        True,
        True,
    )
    assert len(row["prompt_ids"]) + len(row["completion_ids"]) == 5
    assert len(row["completion_ids"]) == len(row["completion_mask"]) == len(row["completion_logprobs"])


def test_a_rollout_without_tokens_says_how_to_ask_for_them():
    env = Talking(dataset=[{"prompt": "q"}], max_turns=1)
    output = env.evaluate_sync(lambda messages: "said", "m")["outputs"][0]
    with pytest.raises(vf.UsageError, match=r"turn 0 of rollout .* has no tokens; ask for them by"):
        interleaved(output)


def test_a_rollout_that_failed_is_no_example():
    assert per_turn(roll_out(turns=[([1], [2])]) | {"error": {"message": "gone"}}) == []
