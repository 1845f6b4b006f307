"""Calls that a stranger made to take much time, memory or disk: each is read once, and not more of it is told."""

import pytest

from seatrial.gateway.calls import CallLog, RecordedCalls
from seatrial.messages import Message
from seatrial.model.record import AgentRef
from seatrial.model.trace import ModelCall
from seatrial.trajectories.atif import keep_trajectory, make_trajectory
from seatrial.trajectories.export import chat_line, dialogues
from seatrial.trajectories.paths import MOST_PROMPTS, grow
from seatrial.trajectories.reading import read_message
from seatrial.trajectories.threads import find_threads
from tests.trajectories.samples import BEGUN, Chat, Tool

CHAT = Chat()
AGENT = AgentRef(name="x")


def call(index, messages, **request):
    return ModelCall(
        index=index,
        dialect="openai_chat",
        path=CHAT.path,
        started_at=BEGUN,
        duration_sec=1,
        status=200,
        messages=messages,
        request=request,
        response=CHAT.answer(f"answer {index}"),
    )


def test_a_hundred_thousand_pieces_are_one_message():
    assert read_message({"role": "user", "content": ["x"] * 100_000}) == [Message("user", ("x",) * 100_000)]


def test_a_thousand_results_find_their_calls_from_the_last_step_on():
    tools: list[Tool] = [(f"id{number % 2}", "shell", {}) for number in range(4)]
    asked = [*CHAT.said("", *tools[:2]), *CHAT.said("", *tools[2:]), *(CHAT.result(tool, "x") for tool in tools * 500)]
    steps = make_trajectory(find_threads([call(0, asked)]), AGENT, "s").trajectory.steps
    found = [[each.source_call_id for each in step.observation.results] for step in steps if step.observation]
    assert found == [["id0", "id1"], ["id0", "id1", *[None] * 1996]]


def test_results_without_an_id_go_to_the_first_open_call_of_their_name():
    said = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"n": n}}} for n in (1, 2)]}
    heard = {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": n}}} for n in (1, 2)]}
    steps = make_trajectory(find_threads([call(0, [said, heard])]), AGENT, "s").trajectory.steps
    assert steps[0].observation is not None
    assert [(each.source_call_id, each.content) for each in steps[0].observation.results] == [
        ("call-1-1", "1"),
        ("call-1-2", "2"),
    ]


def test_arguments_nested_without_end_are_told_as_they_were_written():
    deep = '{"a":' * 1020 + "1" + "}" * 1020
    said = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": deep}}]}
    calls = [call(0, [CHAT.user("go"), said])]
    line = chat_line(next(dialogues(RecordedCalls(calls), find_threads(calls)[0])))
    assert line["messages"][1]["tool_calls"][0]["function"]["arguments"] == deep


def test_of_very_many_system_prompts_a_few_are_remembered():
    prompts = [{"role": "system", "content": f"prompt {number}"} for number in range(MOST_PROMPTS + 9)]
    end = grow([call(0, [*prompts, CHAT.user("go")])])[0]
    assert end.system == tuple(prompt["content"] for prompt in prompts[:MOST_PROMPTS])
    assert end.opening is end


@pytest.mark.parametrize("limit", ["MOST_MESSAGES", "MOST_BYTES"])
def test_threads_that_repeat_each_other_without_end_become_no_trajectory(tmp_path, monkeypatch, limit):
    talk = [CHAT.user(f"{'word ' * 40}{number}") for number in range(40)]
    with CallLog(tmp_path) as log:
        for number in range(1, 40):  # each of another agent, by its system prompt
            log.write(call(number, talk[:number], system=f"{number}"))
    calls = (tmp_path / "calls.jsonl").stat().st_size
    monkeypatch.setattr(f"seatrial.trajectories.atif.{limit}", {"MOST_MESSAGES": 500, "MOST_BYTES": calls}[limit])
    assert "39 threads repeat too much" in str(keep_trajectory(tmp_path, AGENT, "s"))
    assert not (tmp_path / "agent").exists()


def test_a_conversation_goes_on_where_very_many_have_asked_the_same():
    asked = [call(number, [CHAT.user("go")], system=f"{number}") for number in range(600)]
    asked.append(call(600, [CHAT.user("go"), *CHAT.said("answer 599"), CHAT.user("on")], system="another"))
    threads = find_threads(asked)
    assert [each.call.index for each in next(each for each in threads if len(each.calls) > 1).calls] == [599, 600]
