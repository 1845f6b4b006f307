"""What calls.jsonl keeps once: tool definitions, system prompts and messages whose cache marks have moved."""

import datetime as dt
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.calls import CALLS_FILE, CallLog, conversation, read_calls, whole_request
from seatrial.gateway.ended import EndedCall
from seatrial.gateway.recorded import RecordedCalls
from seatrial.model.trace import KnownMessages, KnownPart, ModelCall

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
MARK = {"type": "ephemeral"}


def call(index: int, messages: list[Any], request: dict[str, Any] | None = None) -> ModelCall:
    return ModelCall(
        index=index,
        dialect="anthropic",
        path="/v1/messages",
        started_at=NOW,
        duration_sec=0.5,
        messages=messages,
        request=request,
    )


def written(folder: Path, *calls: ModelCall, secrets: tuple[str, ...] = ()) -> list[ModelCall]:
    with CallLog(folder, secrets) as log:
        for each in calls:
            log.write(each)
    return read_calls(folder / CALLS_FILE)


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": name * 40, "input_schema": {"type": "object"}}


def say(text: str, *, marked: bool = False) -> dict[str, Any]:
    mark = {"cache_control": MARK} if marked else {}
    return {"role": "user", "content": [{"type": "text", "text": text, **mark}]}


def session(turns: int) -> list[ModelCall]:
    """As Claude Code talks: the same tools every time, a line of its system prompt that changes, a mark that moves."""
    tools = [tool(name) for name in ("Bash", "Edit", "Read")]
    calls = []
    for turn in range(turns):
        system = [
            {"type": "text", "text": f"build {turn}"},
            {"type": "text", "text": "You are an agent. " * 40, "cache_control": MARK},
        ]
        messages = [say(f"{place} " * 100, marked=place == turn) for place in range(turn + 1)]
        calls.append(call(turn, messages, {"model": "m", "system": system, "tools": tools, "max_tokens": 5}))
    return calls


def test_a_session_keeps_each_thing_once_and_gives_everything_back(tmp_path):
    asked = session(10)
    calls = written(tmp_path, *asked)
    assert [len(each.messages) for each in calls] == [1] * 10
    assert [set(each.request or {}) for each in calls[1:]] == [{"model", "system", "max_tokens"}] * 9
    assert [conversation(calls, each.index) for each in asked] == [each.messages for each in asked]
    assert [whole_request(calls, each.index) for each in asked] == [each.request for each in asked]
    assert (tmp_path / CALLS_FILE).read_bytes().count(b"You are an agent") == 40


def test_a_mark_that_moves_makes_no_message_new_and_is_told_where_it_stood(tmp_path):
    calls = written(tmp_path, call(0, [say("a", marked=True)]), call(1, [say("a"), say("b", marked=True)]))
    assert calls[1].known == KnownMessages(call=0, count=1)
    (mark,) = calls[1].marks
    assert (mark.message, mark.at, mark.name, mark.value) == (1, ["content", 0], "cache_control", MARK)
    assert RecordedCalls(calls).plain_messages(1) == [say("a"), say("b")]


def test_tools_that_come_and_go_are_taken_from_where_they_were(tmp_path):
    offers = [["a", "b"], ["new", "a", "b"], ["a", "new", "b", "c"], ["b"], ["a", "b"]]
    asked = [call(index, [], {"tools": [tool(name * 9) for name in names]}) for index, names in enumerate(offers)]
    calls = written(tmp_path, *asked)
    assert [len((each.request or {}).get("tools", [])) for each in calls] == [2, 1, 1, 0, 0]
    assert calls[1].known_parts == [KnownPart(field="tools", call=0, at=1, start=0, count=2)]
    assert [whole_request(calls, each.index) for each in asked] == [each.request for each in asked]


@pytest.mark.parametrize("value", ["You are an agent. " * 20, {"parts": [{"text": "You are an agent. " * 20}]}])
def test_a_prompt_that_is_no_list_is_kept_once_as_well(tmp_path, value):
    asked = [call(0, [], {"instructions": value}), call(1, [], {"instructions": value})]
    calls = written(tmp_path, *asked)
    assert (calls[1].request, calls[1].known_parts) == ({}, [KnownPart(field="instructions", call=0)])
    assert whole_request(calls, 1) == asked[1].request


def test_a_table_is_not_taken_for_the_only_entry_of_a_list(tmp_path):
    asked = [call(0, [], {"tools": tool("x" * 9)}), call(1, [], {"tools": [tool("x" * 9)]})]
    calls = written(tmp_path, *asked)
    assert whole_request(calls, 1) == asked[1].request


@pytest.mark.parametrize("stop", [[0] * 1000, [[]] * 5000])
def test_lists_of_tiny_entries_are_written_again_for_that_takes_less_room(tmp_path, stop):
    asked = [call(index, [], {"stop": stop}) for index in range(2)]
    calls = written(tmp_path, *asked)
    assert calls[1].known_parts == []
    assert [whole_request(calls, each.index) for each in asked] == [each.request for each in asked]


def test_of_far_too_many_messages_nothing_is_remembered(tmp_path):
    asked = [call(index, [index] + [0] * 70_000) for index in (0, 0)]
    calls = written(tmp_path, *asked)
    assert [each.known for each in calls] == [None, None]
    assert calls[1].messages == asked[1].messages


def test_an_old_file_has_everything_in_place(tmp_path):
    asked = session(2)
    lines = [each.model_dump_json(exclude={"known_parts", "marks"}, exclude_none=True) for each in asked]
    (tmp_path / CALLS_FILE).write_text("\n".join(lines))
    calls = read_calls(tmp_path / CALLS_FILE)
    assert [conversation(calls, index) for index in range(2)] == [each.messages for each in asked]
    assert [whole_request(calls, index) for index in range(2)] == [each.request for each in asked]


def test_a_secret_in_a_tool_is_gone_from_every_call(tmp_path):
    asked = [call(index, [], {"tools": [tool("sk-0123456789")]}) for index in range(2)]
    calls = written(tmp_path, *asked, secrets=("sk-0123456789",))
    assert whole_request(calls, 1) == {"tools": [tool("[secret]")]}


def ended(index: int, request: dict[str, Any]) -> EndedCall:
    return {
        "index": index,
        "path": "/",
        "started_at": NOW,
        "duration_sec": 0.5,
        "stream": False,
        "messages": [],
        "request": request,
    }


def test_a_request_nested_too_deeply_is_nothing_to_build_on(tmp_path):
    deep: Any = orjson.loads(b"[" * 150 + b"]" * 150)
    tools = [tool("x" * 9)]
    asked = [call(0, [], {"tools": tools}), call(2, [], {"tools": tools})]
    with CallLog(tmp_path) as log:
        for line in ({"tools": [*tools, deep]}, {"tools": [*tools, deep]}):
            log.write(ended(1, line))
        for each in asked:
            log.write(each)
    calls = read_calls(tmp_path / CALLS_FILE)
    assert "not_kept" in (calls[0].request or {})
    assert whole_request(calls[2:], 2) == {"tools": tools}


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ({"known_parts": [KnownPart(field="tools", call=7)]}, "builds on call 7"),
        ({"known_parts": [KnownPart(field="tools", call=0)]}, "which does not have it"),
    ],
)
def test_a_file_with_a_call_missing_says_so(known, message):
    calls = [call(0, [], {}), call(1, [], {}).model_copy(update=known)]
    with pytest.raises(ValueError, match=message):
        whole_request(calls, 1)


@pytest.mark.parametrize(("builds_on", "message"), [(7, "builds on call 7"), (1, "builds on itself")])
def test_a_conversation_with_a_call_missing_says_so(builds_on, message):
    calls = [call(0, []), call(1, []).model_copy(update={"known": KnownMessages(call=builds_on, count=1)})]
    with pytest.raises(ValueError, match=message):
        conversation(calls, 1)


marks = st.sampled_from([MARK, {"type": "ephemeral", "ttl": "1h"}, {}, None, "x", {"deep": [1]}])
names = st.sampled_from(["cache_control", "prompt_cache_breakpoint", "text", "x" * 300])
values = st.recursive(
    st.none() | st.integers(-9, 9) | st.sampled_from(["", "a", "long " * 60]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner | marks, max_size=3),
    max_leaves=8,
)
requests = st.dictionaries(st.sampled_from(["tools", "system", "cache_control"]), values | st.lists(values, max_size=4))


@given(st.lists(st.tuples(st.lists(values, max_size=4), requests), min_size=1, max_size=6))
def test_whatever_is_sent_comes_back_exactly(tmp_path_factory, sent):
    folder = tmp_path_factory.mktemp("calls")
    calls = written(folder, *(call(index, *each) for index, each in enumerate(sent)))
    found = RecordedCalls(calls)
    assert [(found.messages(index), found.request(index)) for index in range(len(calls))] == sent
