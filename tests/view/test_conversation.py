"""The conversation of a trial: pages of turns, what is folded, where the first failure is, and damaged files."""

import json
from pathlib import Path

import pytest

from seatrial.errors import SeatrialError
from seatrial.view.conversation import AT_ONCE, MOST_BYTES, TURNS, Conversation, Talk, failures_first, talk_of
from tests.view.trial.trials import told_calls


def read(folder: Path) -> Conversation:
    talk = talk_of(folder, None)
    assert talk is not None
    assert talk.conversation is not None
    return talk.conversation


def test_turns_come_in_pages_and_the_failure_says_on_which(tmp_path):
    told_calls(tmp_path, 60, failing=40)
    conversation = read(tmp_path)
    assert [len(conversation.turns(page)) for page in (1, 2, 3)] == [TURNS, TURNS, 10]
    assert conversation.pages == 3
    found = failures_first([Talk("empty", 0, None), Talk("one", 1, conversation)])
    assert found is not None
    assert (found[0].step, found[1].words, found[1].page) == ("one", "bash (make): exit status 2", 2)
    said = [(turn.index, each) for turn in conversation.turns(2) for each in turn.said if each.is_first_failure]
    assert [(index, each.failed, each.is_folded) for index, each in said] == [(41, "exit status 2", False)]


def test_what_tools_do_is_folded_and_each_turn_has_its_tokens_and_cost(tmp_path):
    told_calls(tmp_path, 2, text="line one\nline two")
    first, second = read(tmp_path).turns(1)
    folded = [(said.who, said.is_folded) for said in first.said]
    assert folded == [("system", True), ("user", False), ("reasoning", True), ("tool call", True)]
    assert first.said[3].text == "bash\ncommand:\nls line one\nline two"
    assert second.said[0].who == "tool"
    assert {"101 in, 7 out", "0.2500 USD"} <= set(second.facts)


def test_what_is_endless_is_cut_in_its_middle(tmp_path):
    told_calls(tmp_path, 1, text=f"begin{'x' * 50_000}end")
    text = read(tmp_path).turns(1)[0].said[1].text
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "26,008 characters left out; calls.jsonl has them" in text


def test_calls_up_to_a_damaged_line_are_told(tmp_path):
    content = told_calls(tmp_path, 3)
    (tmp_path / "calls.jsonl").write_bytes(content + b'{"index": 3, "pa')
    conversation = read(tmp_path)
    assert len(conversation.turns(1)) == 3
    assert conversation.trouble.startswith("line 4 of calls.jsonl is damaged")


def test_calls_that_build_on_missing_ones_are_told_without_threads(tmp_path):
    first, second = map(json.loads, told_calls(tmp_path, 2).splitlines())
    second["known_parts"] = [{"field": "tools", "call": 99}]
    (tmp_path / "calls.jsonl").write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    conversation = read(tmp_path)
    assert len(conversation.turns(1)) == 2
    assert conversation.trouble == "the calls cannot be put together: call 1 builds on call 99, which is not there"


def test_a_large_conversation_is_left_for_later_and_a_huge_one_is_not_read(tmp_path):
    file = tmp_path / "calls.jsonl"
    file.write_bytes(told_calls(tmp_path, 1) + b"\n" * AT_ONCE)
    later, asked = talk_of(tmp_path, None), talk_of(tmp_path, None, MOST_BYTES)
    assert later is not None
    assert (later.conversation, later.can_load) == (None, True)
    assert asked is not None
    assert asked.conversation is not None
    with file.open("r+b") as opened:
        opened.truncate(MOST_BYTES + 1)
    huge = talk_of(tmp_path, None, 2 * MOST_BYTES)
    assert huge is not None
    assert (huge.conversation, huge.can_load) == (None, False)


def test_no_link_leads_to_a_conversation(tmp_path):
    elsewhere, trial = tmp_path / "elsewhere", tmp_path / "trial"
    for folder in (elsewhere, trial / "steps"):
        folder.mkdir(parents=True)
    told_calls(elsewhere, 1)
    (trial / "calls.jsonl").symlink_to(elsewhere / "calls.jsonl")
    (trial / "steps" / "one").symlink_to(elsewhere)
    for step in (None, "one"):
        with pytest.raises(SeatrialError, match="links are not followed"):
            talk_of(trial, step)
    assert talk_of(tmp_path, None) is None


def test_each_turn_has_the_behaviour_of_its_agent(tmp_path):
    told_calls(tmp_path, 2)
    first, second = read(tmp_path).turns(1)
    assert first.behaviour is not None
    assert (first.behaviour.behaviour, first.behaviour.rationale) == ("exploration", "runs ls")
    assert not first.is_uncertain
    assert second.behaviour is not None
