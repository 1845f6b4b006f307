"""Steps of a rollout: tables that read like lists of messages and are kept in little space."""

from array import array

import pytest

from seatrial.env.response import Response, ResponseTokens
from seatrial.env.trajectory import Recorder


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
        "extras": {},
    }
    with pytest.raises(KeyError):
        step["nothing"]


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
