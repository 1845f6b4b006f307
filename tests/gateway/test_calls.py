"""calls.jsonl: each message once, every conversation whole again, nothing secret, whatever strangers send."""

import datetime as dt
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway import calls as calls_module
from seatrial.gateway.base import EndedCall
from seatrial.gateway.calls import CALLS_FILE, CallLog, RecordedCalls, conversation, read_calls, whole_request
from seatrial.model.trace import CallError, KnownMessages, KnownPart, ModelCall, TokenUsage

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)


def call(index: int, messages: list[Any], **fields: Any) -> ModelCall:
    return ModelCall(
        index=index,
        dialect="openai_chat",
        path="/v1/chat/completions",
        started_at=NOW,
        duration_sec=0.5,
        messages=messages,
        **fields,
    )


def say(text: object) -> dict[str, Any]:
    return {"role": "user", "content": text}


def written(folder: Path, *calls: ModelCall, secrets: tuple[str, ...] = ()) -> list[ModelCall]:
    """The calls as they are read again."""
    with CallLog(folder, secrets) as log:
        for each in calls:
            log.write(each)
    return read_calls(folder / CALLS_FILE)


def growing(turns: int) -> list[list[Any]]:
    """The conversation of each turn: a question more every time, and the answer to the last one."""
    history: list[Any] = []
    conversations = []
    for turn in range(turns):
        history = [
            *history,
            say(f"{turn:04} {'x' * 1000}"),
            {"role": "assistant", "content": f"{turn:04} {'y' * 1000}"},
        ]
        conversations.append(history[:-1])
    return conversations


def test_of_a_long_conversation_each_message_is_stored_once(tmp_path):
    turns = growing(400)
    calls = written(tmp_path, *(call(index, messages) for index, messages in enumerate(turns)))
    assert [len(each.messages) for each in calls] == [1] + [2] * 399
    assert [conversation(calls, index) for index in (0, 1, 200, 399)] == [turns[index] for index in (0, 1, 200, 399)]
    assert (tmp_path / CALLS_FILE).stat().st_size < 2 * 400 * 1200


def test_a_conversation_of_any_length_can_be_put_together(tmp_path):
    turns = [[say(number) for number in range(length)] for length in range(1, 1500)]
    with CallLog(tmp_path) as log:
        for index, messages in enumerate(turns):
            log.write(call(index, messages))
    assert conversation(read_calls(tmp_path / CALLS_FILE), len(turns) - 1) == turns[-1]


@pytest.mark.whole
def test_memory_stays_flat(tmp_path):
    def turn(index: int) -> list[Any]:
        # Parsed anew for every call, as from the network; nothing but the log could keep it.
        return [say(f"{number:04} {'x' * 2000}") for number in range(index + 1)]

    with CallLog(tmp_path) as log:
        log.write(call(0, turn(0)))
        tracemalloc.start()
        try:
            for index in range(1, 400):
                log.write(call(index, turn(index)))
            kept, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 256 * 1024
    assert peak < 4 * 2**20


def test_conversations_side_by_side_are_told_apart(tmp_path):
    talks = [[say(f"agent {name}"), *map(say, range(20))] for name in "abcd"]
    asked = [talk[: length + 1] for length in range(1, 21) for talk in talks]
    calls = written(tmp_path, *(call(index, messages) for index, messages in enumerate(asked)))
    assert [conversation(calls, index) for index in range(len(asked))] == asked
    assert sum(len(each.messages) for each in calls) == sum(map(len, talks))


def test_more_conversations_than_are_remembered_are_only_stored_more_often(tmp_path):
    talks = [[say(f"agent {name}"), *map(say, range(5))] for name in range(9)]
    asked = [talk[: length + 1] for length in range(1, 6) for talk in talks]
    calls = written(tmp_path, *(call(index, messages) for index, messages in enumerate(asked)))
    assert [conversation(calls, index) for index in range(len(asked))] == asked


@pytest.mark.parametrize(
    ("later", "new"),
    [
        ([say(1), say(2), say(3)], 0),
        ([say(1), say(2)], 0),
        ([say(1), say("two"), say(3)], 2),
        ([say(0), say(2), say(3)], 3),
        ([say(1), say(2), say(3.0)], 1),
        ([say(True), say(2), say(3)], 3),
        ([], 0),
    ],
    ids=["same", "shorter", "middle edited", "start edited", "another number", "almost the same", "empty"],
)
def test_an_edited_history_is_kept_from_the_edit_on(tmp_path, later, new):
    calls = written(tmp_path, call(0, [say(1), say(2), say(3)]), call(1, later))
    assert len(calls[1].messages) == new
    assert orjson.dumps(conversation(calls, 1)) == orjson.dumps(later)


def test_calls_that_end_in_another_order_than_they_began(tmp_path):
    calls = written(tmp_path, call(1, [say(1), say(2)]), call(0, [say(1), say("b")]))
    assert calls[1].known == KnownMessages(call=1, count=1)
    assert conversation(calls, 0) == [say(1), say("b")]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.lists(json_values, max_size=6), min_size=1, max_size=6))
def test_any_conversations_come_back_exactly(tmp_path_factory, conversations):
    folder = tmp_path_factory.mktemp("calls")
    calls = written(folder, *(call(index, messages) for index, messages in enumerate(conversations)))
    assert [conversation(calls, index) for index in range(len(calls))] == conversations


def test_a_call_comes_back_as_it_was(tmp_path):
    full = call(
        3,
        [say("hello")],
        first_token_sec=0.25,
        stream=True,
        model="m",
        upstream_model="n",
        request={"temperature": 0.5, "logit_bias": None},
        response={"choices": [{"logprobs": None, "token_ids": [1, 2]}]},
        status=200,
        finish_reason="stop",
        usage=TokenUsage(input_tokens=3, output_tokens=4),
        cost_usd=0.125,
        retry_of=2,
        error=CallError(kind="disconnected", message="gone"),
    )
    assert written(tmp_path, full) == [full]


@pytest.mark.parametrize("secret", ["sk-secret-0123456789", 'pass"word\\with\nall', "pässwörd-ß", "1234567890"])
def test_secrets_are_scrubbed_wherever_they_are(tmp_path, secret):
    said = f"before {secret} after"
    told = call(
        0,
        [say(said)],
        model=said,
        request={said: [said]},
        response={"deep": {"deeper": [said]}},
        error=CallError(kind="agent", message=said),
    )
    (found,) = written(tmp_path, told, secrets=("short", secret))
    clean = "before [secret] after"
    assert (found.model, found.request, found.messages) == (clean, {clean: [clean]}, [say(clean)])
    assert found.response == {"deep": {"deeper": [clean]}}
    assert found.error == CallError(kind="agent", message=clean)
    text = (tmp_path / CALLS_FILE).read_text()
    assert secret not in text
    assert json.dumps(secret)[1:-1] not in text


@pytest.mark.parametrize("secret", ["messages", "openai_chat", "provider", "duration_sec", "12345678"])
def test_a_secret_that_looks_like_a_part_of_the_line_does_not_break_it(tmp_path, secret):
    numbered = call(0, [say(f"{secret}!")], response={"id": 12345678}, error=CallError(kind="provider", message="x"))
    (found,) = written(tmp_path, numbered, secrets=(secret,))
    assert (found.dialect, found.messages) == ("openai_chat", [say("[secret]!")])


def test_of_a_secret_within_a_secret_nothing_is_left(tmp_path):
    (found,) = written(tmp_path, call(0, [say("abcdefgh-ijklmnop")]), secrets=("abcdefgh", "abcdefgh-ijklmnop"))
    assert found.messages == [say("[secret]")]


@pytest.mark.parametrize("depth", [101, 180, 250, 300, 1000])
def test_messages_nested_too_deeply_do_not_make_the_others_unreadable(tmp_path, depth):
    deep = say(orjson.loads(b"[" * depth + b"]" * depth))
    calls = written(
        tmp_path, call(0, [say(1)]), call(1, [say(1), deep]), call(2, [say(1), deep]), call(3, [say(1), say(2)])
    )
    assert [conversation(calls, index) for index in range(4)] == [[say(1)], [], [], [say(1), say(2)]]


class Reluctant(io.FileIO):
    """A file that takes only a few bytes at a time, as one on a full disk may."""

    def write(self, data: Any) -> int:
        return super().write(data[:100])


@pytest.mark.parametrize("kind", [io.FileIO, Reluctant])
def test_a_call_is_in_the_file_as_soon_as_it_is_written(tmp_path, monkeypatch, kind):
    with CallLog(tmp_path) as log:
        for index in range(3):
            with monkeypatch.context() as patch:
                patch.setattr(Path, "open", lambda path, mode, buffering: kind(path, mode.replace("b", "")))
                log.write(call(index, [say("x" * 100_000 * index)]))
            assert [each.index for each in read_calls(tmp_path / CALLS_FILE)] == list(range(index + 1))


def test_a_line_that_is_no_call_is_refused(tmp_path):
    (tmp_path / CALLS_FILE).write_text("{}\n")
    with pytest.raises(ValueError, match="ModelCall"):
        read_calls(tmp_path / CALLS_FILE)


def test_without_calls_there_is_no_file(tmp_path):
    with CallLog(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_says_too_much_keeps_only_how_its_calls_went(tmp_path, monkeypatch):
    monkeypatch.setattr(calls_module, "MOST_BYTES", 3000)
    turns = [[say("x" * 1000)], [say("x" * 1000), say("y" * 2000)], [say("x" * 1000), say("z")]]
    kept = written(tmp_path, *(call(index, turn, status=200) for index, turn in enumerate(turns)))
    assert [len(each.messages) for each in kept] == [1, 0, 1]
    assert "not_kept" in (kept[1].request or {})
    assert conversation(kept, 2) == turns[2]


MARK = {"type": "ephemeral"}


def recorded_call(index: int, messages: list[Any], request: dict[str, Any] | None = None) -> ModelCall:
    return ModelCall(
        index=index,
        dialect="anthropic",
        path="/v1/messages",
        started_at=NOW,
        duration_sec=0.5,
        messages=messages,
        request=request,
    )


def recorded_written(folder: Path, *calls: ModelCall, secrets: tuple[str, ...] = ()) -> list[ModelCall]:
    with CallLog(folder, secrets) as log:
        for each in calls:
            log.write(each)
    return read_calls(folder / CALLS_FILE)


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": name * 40, "input_schema": {"type": "object"}}


def recorded_say(text: str, *, marked: bool = False) -> dict[str, Any]:
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
        messages = [recorded_say(f"{place} " * 100, marked=place == turn) for place in range(turn + 1)]
        calls.append(recorded_call(turn, messages, {"model": "m", "system": system, "tools": tools, "max_tokens": 5}))
    return calls


def test_a_session_keeps_each_thing_once_and_gives_everything_back(tmp_path):
    asked = session(10)
    calls = recorded_written(tmp_path, *asked)
    assert [len(each.messages) for each in calls] == [1] * 10
    assert [set(each.request or {}) for each in calls[1:]] == [{"model", "system", "max_tokens"}] * 9
    assert [conversation(calls, each.index) for each in asked] == [each.messages for each in asked]
    assert [whole_request(calls, each.index) for each in asked] == [each.request for each in asked]
    assert (tmp_path / CALLS_FILE).read_bytes().count(b"You are an agent") == 40


def test_a_mark_that_moves_makes_no_message_new_and_is_told_where_it_stood(tmp_path):
    calls = recorded_written(
        tmp_path,
        recorded_call(0, [recorded_say("a", marked=True)]),
        recorded_call(1, [recorded_say("a"), recorded_say("b", marked=True)]),
    )
    assert calls[1].known == KnownMessages(call=0, count=1)
    (mark,) = calls[1].marks
    assert (mark.message, mark.at, mark.name, mark.value) == (1, ["content", 0], "cache_control", MARK)
    assert RecordedCalls(calls).plain_messages(1) == [recorded_say("a"), recorded_say("b")]


def test_tools_that_come_and_go_are_taken_from_where_they_were(tmp_path):
    offers = [["a", "b"], ["new", "a", "b"], ["a", "new", "b", "c"], ["b"], ["a", "b"]]
    asked = [
        recorded_call(index, [], {"tools": [tool(name * 9) for name in names]}) for index, names in enumerate(offers)
    ]
    calls = recorded_written(tmp_path, *asked)
    assert [len((each.request or {}).get("tools", [])) for each in calls] == [2, 1, 1, 0, 0]
    assert calls[1].known_parts == [KnownPart(field="tools", call=0, at=1, start=0, count=2)]
    assert [whole_request(calls, each.index) for each in asked] == [each.request for each in asked]


@pytest.mark.parametrize("value", ["You are an agent. " * 20, {"parts": [{"text": "You are an agent. " * 20}]}])
def test_a_prompt_that_is_no_list_is_kept_once_as_well(tmp_path, value):
    asked = [recorded_call(0, [], {"instructions": value}), recorded_call(1, [], {"instructions": value})]
    calls = recorded_written(tmp_path, *asked)
    assert (calls[1].request, calls[1].known_parts) == ({}, [KnownPart(field="instructions", call=0)])
    assert whole_request(calls, 1) == asked[1].request


def test_a_table_is_not_taken_for_the_only_entry_of_a_list(tmp_path):
    asked = [recorded_call(0, [], {"tools": tool("x" * 9)}), recorded_call(1, [], {"tools": [tool("x" * 9)]})]
    calls = recorded_written(tmp_path, *asked)
    assert whole_request(calls, 1) == asked[1].request


@pytest.mark.parametrize("stop", [[0] * 1000, [[]] * 5000])
def test_lists_of_tiny_entries_are_written_again_for_that_takes_less_room(tmp_path, stop):
    asked = [recorded_call(index, [], {"stop": stop}) for index in range(2)]
    calls = recorded_written(tmp_path, *asked)
    assert calls[1].known_parts == []
    assert [whole_request(calls, each.index) for each in asked] == [each.request for each in asked]


def test_of_far_too_many_messages_nothing_is_remembered(tmp_path):
    asked = [recorded_call(index, [index] + [0] * 70_000) for index in (0, 0)]
    calls = recorded_written(tmp_path, *asked)
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
    asked = [recorded_call(index, [], {"tools": [tool("sk-0123456789")]}) for index in range(2)]
    calls = recorded_written(tmp_path, *asked, secrets=("sk-0123456789",))
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
    asked = [recorded_call(0, [], {"tools": tools}), recorded_call(2, [], {"tools": tools})]
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
    calls = [recorded_call(0, [], {}), recorded_call(1, [], {}).model_copy(update=known)]
    with pytest.raises(ValueError, match=message):
        whole_request(calls, 1)


@pytest.mark.parametrize(("builds_on", "message"), [(7, "builds on call 7"), (1, "builds on itself")])
def test_a_conversation_with_a_call_missing_says_so(builds_on, message):
    calls = [
        recorded_call(0, []),
        recorded_call(1, []).model_copy(update={"known": KnownMessages(call=builds_on, count=1)}),
    ]
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
    calls = recorded_written(folder, *(recorded_call(index, *each) for index, each in enumerate(sent)))
    found = RecordedCalls(calls)
    assert [(found.messages(index), found.request(index)) for index in range(len(calls))] == sent
