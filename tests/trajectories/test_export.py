"""Training lines: dialogues as chat messages."""

import json

import pytest

from seatrial.gateway.calls import RecordedCalls
from seatrial.trajectories.export import chat_line, dialogues
from seatrial.trajectories.threads import find_threads
from tests.trajectories.samples import ALSO, DIALECTS, LOOK, Anthropic, Trial, whole_trial

every_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda each: type(each).__name__)


def first(trial):
    main, *_ = find_threads(trial.calls)
    return next(dialogues(RecordedCalls(trial.calls), main))


@every_dialect
def test_chat_lines_are_the_same_from_every_dialect(dialect):
    line = chat_line(first(whole_trial(dialect)))
    roles = [message["role"] for message in line["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "user", "assistant"]
    looked, result = line["messages"][2], line["messages"][3]
    assert (looked["content"], len(looked["tool_calls"])) == ("I look.", 2)
    assert json.loads(looked["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    assert result["tool_call_id"] == looked["tool_calls"][0]["id"]
    assert line["messages"][4]["tool_call_id"] == looked["tool_calls"][1]["id"]
    assert [part["type"] for part in line["messages"][7]["content"]] == ["text", "image_url"]
    assert [tool["function"]["name"] for tool in line["tools"]] == ["shell", "task"]


def test_thoughts_are_left_out():
    trial = Trial(Anthropic())
    trial.agent("x").hears("go").asks("ok")
    assert chat_line(first(trial))["messages"][-1] == {"role": "assistant", "content": "ok"}


def test_each_stretch_between_compactions_is_a_dialogue_and_cut_answers_are_none():
    trial, dialect = Trial(Anthropic()), Anthropic()
    main = trial.agent("You work.", "shell")
    main.hears("Do it.").asks("I look.", LOOK)
    summary = "The user wants it done, and there is a file a.txt in the folder."
    main.gets(LOOK, "a.txt").hears("Summarise.").asks(summary)
    main.messages = [dialect.user(f"From before: {summary}")]
    main.asks("I go on.", ALSO)
    main.gets(ALSO, "/work").call()
    (thread,) = find_threads(trial.calls)
    lines = [chat_line(each)["messages"] for each in dialogues(RecordedCalls(trial.calls), thread)]
    assert [messages[-1]["content"] for messages in lines] == [summary, "I go on."]
