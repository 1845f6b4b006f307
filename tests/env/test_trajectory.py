"""Steps of a rollout: tables that read like lists of messages and are kept in little space."""

from array import array

import orjson
import pytest

from seatrial.env.response import Response, ResponseTokens
from seatrial.env.trajectory import Recorder, as_step
from seatrial.model.trace import TokenUsage


def said(text, **more):
    return Response({"role": "assistant", "content": text}, **more)


def told(prompt, completion):
    return ResponseTokens(array("q", prompt), array("q", completion), array("d", [-0.5] * len(completion)))


ASKED = [{"role": "user", "content": "q"}]


def test_a_step_is_a_table_of_prompt_and_completion():
    step = Recorder().step(ASKED, said("a", finish_reason="length"))
    assert dict(step) == {
        "prompt": ASKED,
        "completion": [{"role": "assistant", "content": "a"}],
        "response": step.response,
        "tokens": None,
        "is_truncated": True,
        "trajectory_id": "",
        "reward": None,
        "advantage": None,
        "extras": {},
    }
    with pytest.raises(KeyError):
        step["nothing"]


def test_what_a_turn_is_worth_may_be_written_and_nothing_else():
    step = Recorder(trajectory_id="t").step(ASKED, said("a"))
    step["reward"], step["advantage"] = 1.0, 0.5
    assert (step["reward"], step["advantage"], step["trajectory_id"]) == (1.0, 0.5, "t")
    with pytest.raises(TypeError, match="completion of a turn cannot be set; reward, advantage, extras can"):
        step["completion"] = []


def test_a_turn_is_a_table_that_json_has():
    usage = TokenUsage(input_tokens=2, output_tokens=1)
    table = Recorder().step(ASKED, said("a", tokens=told([1, 2], [3]), usage=usage, model="m")).to_table()
    again = orjson.loads(orjson.dumps(table))
    assert again == table
    assert (again["response"]["model"], again["response"]["usage"]["input_tokens"]) == ("m", 2)
    assert again["tokens"]["completion_ids"] == [3]


@pytest.mark.parametrize(
    ("limit", "prompt_ids", "completion_ids", "overlong"),
    [(4, [1, 2, 3], [4], False), (3, [1, 2, 3], [], False), (2, [1, 2], [], True)],
)
def test_tokens_beyond_a_limit_are_left_out(limit, prompt_ids, completion_ids, overlong):
    step = Recorder(max_seq_len=limit).step(ASKED, said("a", tokens=told([1, 2, 3], [4, 5])))
    tokens = step["tokens"]
    assert (tokens["prompt_ids"], tokens["completion_ids"]) == (prompt_ids, completion_ids)
    assert len(tokens["completion_logprobs"]) == len(tokens["completion_mask"]) == len(completion_ids)
    assert (tokens["overlong_prompt"], tokens["is_truncated"], step["is_truncated"]) == (overlong, True, True)


def test_a_table_that_a_hook_made_becomes_a_turn():
    tokens = {"prompt_ids": [1], "completion_ids": [2], "completion_logprobs": [-0.5]}
    step = as_step({"prompt": "q", "completion": "a", "tokens": tokens, "reward": 1.0, "extras": {"mine": 1}})
    assert (step["prompt"], step["completion"]) == (ASKED, [{"role": "assistant", "content": "a"}])
    assert (step["tokens"]["prompt_ids"], step["tokens"]["completion_ids"]) == ([1], [2])
    assert (step["reward"], step["extras"]) == (1.0, {"mine": 1})
    assert as_step(step) is step
    with pytest.raises(TypeError, match="a turn of a trajectory is a table"):
        as_step("a")


def test_what_is_read_may_be_changed_without_harm():
    step = Recorder().step(ASKED, said("a"))
    step["prompt"].clear()
    step["extras"]["mine"] = 1
    assert (step["prompt"], step["extras"]) == (ASKED, {"mine": 1})


def test_tokens_for_trainers():
    step = Recorder().step(ASKED, said("a", tokens=told([1, 2], [3])))
    assert step["tokens"] == {
        "prompt_ids": [1, 2],
        "prompt_mask": [0, 0],
        "completion_ids": [3],
        "completion_mask": [1],
        "completion_logprobs": [-0.5],
        "overlong_prompt": False,
        "is_truncated": False,
    }


def test_turns_share_their_prompts_and_its_tokens():
    recorder = Recorder()
    first = recorder.step(ASKED, said("a", tokens=told([1, 2], [3])))
    second = recorder.step([*ASKED, {"role": "assistant", "content": "a"}], said("b", tokens=told([1, 2, 3], [4])))
    assert first.asked.items is second.asked.items
    assert second["prompt"][1] is first["completion"][0]
    assert first.asked_ids is not None
    assert second.asked_ids is not None
    assert first.asked_ids.items is second.asked_ids.items
    assert (first["tokens"]["prompt_ids"], second["tokens"]["prompt_ids"]) == ([1, 2], [1, 2, 3])
    assert second.response.tokens is not None
    assert not second.response.tokens.prompt_ids
