"""Rollouts as examples for training: a turn each, or a conversation as one sequence."""

import pytest

import seatrial as vf
from seatrial.env.training import interleaved, per_turn

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


def told(**choice):
    said = {"message": {"role": "assistant", "content": "said"}, "finish_reason": "stop"}
    prompt = choice.pop("prompt_token_ids", None)
    return {"choices": [{**said, **choice}], **({"prompt_token_ids": prompt} if prompt else {})}


def logprobs(*values):
    return {"content": [{"token": "x", "logprob": value} for value in values]}


def answered(*completions):
    left = iter(completions)
    env = Talking(dataset=[{"prompt": "q"}], rubric=vf.Rubric([lambda: 0.5]), max_turns=len(completions))
    return env.evaluate_sync(lambda request: next(left), "m")["outputs"][0]


@pytest.mark.parametrize("rows", [interleaved, per_turn])
@pytest.mark.parametrize(
    ("second", "lacks"),
    [
        ({"token_ids": [5, 6], "logprobs": logprobs(-0.5)}, "no ids of its prompt"),
        (
            {"prompt_token_ids": [1, 2, 3], "token_ids": [5, 6], "logprobs": logprobs(-0.5)},
            "2 token ids and 1 log-prob",
        ),
        (
            {"prompt_token_ids": [1, 2, 3], "token_ids": [5], "logprobs": logprobs(float("nan"))},
            "1 token ids and 0 log",
        ),
        (
            {"prompt_token_ids": [1, 2, 3], "token_ids": [2**63], "logprobs": logprobs(-0.5)},
            "0 token ids and 1 log-prob",
        ),
    ],
)
def test_a_turn_of_which_too_little_was_told_is_no_example(rows, second, lacks):
    first = told(prompt_token_ids=[1, 2], token_ids=[3], logprobs=logprobs(-0.1))
    output = answered(first, told(**second))
    assert output["error"] is None
    with pytest.raises(vf.UsageError, match=f"turn 1 .* has {lacks}"):
        rows(output)


def test_a_server_without_log_probabilities_leaves_all_of_them_out():
    turns = [told(prompt_token_ids=prompt, token_ids=ids) for prompt, ids in TURNS[:2]]
    (row,) = interleaved(answered(*turns))
    assert (row["completion_ids"], row["completion_mask"], row["completion_logprobs"]) == (
        [3, 4, 5, 6],
        [1, 0, 1, 1],
        [],
    )


def test_a_sequence_of_turns_that_differ_has_the_advantage_of_the_rollout():
    output = roll_out(TURNS[:2])
    output["advantage"] = 0.25
    for turn, advantage in zip(output["trajectory"], (5.0, -5.0), strict=True):
        turn["advantage"] = advantage
    assert [row["advantage"] for row in interleaved(output)] == [0.25]
    assert [row["advantage"] for row in per_turn(output)] == [5.0, -5.0]
