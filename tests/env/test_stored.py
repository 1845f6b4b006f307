"""Outputs as lines of JSON, and back."""

import asyncio
import json

import pytest

from seatrial.env.results import make_output
from seatrial.env.stored import dump_output, load_output
from tests.env.games import ROWS, Guessing
from tests.jobs.samples import evaluation


def model(request):
    said = {"role": "assistant", "content": str(len(request["messages"]) // 2)}
    tokens = {"token_ids": [9], "prompt_token_ids": list(range(len(request["messages"])))}
    choice = {"index": 0, "message": said, "finish_reason": "stop", **tokens}
    return {"id": "c", "choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 1}}


@pytest.fixture
def output():
    state = asyncio.run(Guessing().rollout(ROWS[2], model, "m"))
    state["evaluation"] = evaluation(0.5)
    return make_output(state)


def readable(output):
    return {**output, "trajectory": [{**step, "response": step["response"].message} for step in output["trajectory"]]}


def test_an_output_comes_back_as_it_was(output):
    output["trajectory"][1]["extras"]["mine"] = 1
    again = load_output(dump_output(output))
    assert readable(again) == readable(output)
    assert again["trajectory"][0].response.usage == output["trajectory"][0].response.usage
    assert again["trajectory"][2]["tokens"]["prompt_ids"] == [0, 1, 2, 3, 4]


def test_what_the_prompts_share_is_written_once(output):
    line = dump_output(output)
    assert line.count(b"\n") == 1
    assert len(json.loads(line)["trajectory"]["messages"]) == 1
    again = load_output(line)["trajectory"]
    assert again[0].asked.items is again[2].asked.items


def test_what_json_has_no_form_for_is_written_as_text(output):
    again = load_output(dump_output({**output, "info": {"when": {1}, "odd": "\ud800"}}))
    assert again["info"] == {"when": "{1}", "odd": "\ud800"}


def test_what_has_no_end_is_left_out(output):
    endless: list[object] = []
    endless.append(endless)
    output["trajectory"][0]["extras"]["mine"] = endless
    again = load_output(dump_output({**output, "info": endless}))
    assert again["info"] == "a list that cannot be stored"
    assert again["completion"] == output["completion"]
