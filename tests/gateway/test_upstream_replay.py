"""ReplayModel: the same run again, and where it stops being the same."""

import asyncio
import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.errors import ProviderError, UsageError
from seatrial.gateway.api import ModelRequest, for_trial
from seatrial.gateway.calls import CallLog
from seatrial.gateway.dialects import DIALECTS as MODULES
from seatrial.gateway.upstreams.replay import ReplayModel, fingerprint, first_difference
from seatrial.gateway.upstreams.replies import Reply, render_response
from seatrial.model.trace import CallError, DialectName, KnownMessages, ModelCall
from tests.gateway.upstream_calls import DIALECTS, Answered, ask, call

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 2.5]) | st.text("ab", max_size=2)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def recorded(index: int, request: ModelRequest, text: str = "", **fields: Any) -> ModelCall:
    """A call as calls.jsonl has it; each starts when the one before it has ended."""
    payload = request.payload or {}
    dialect = request.dialect
    settings: dict[str, Any] = {
        "index": index,
        "dialect": dialect,
        "path": request.path,
        "started_at": START + dt.timedelta(seconds=index),
        "duration_sec": 0.5,
        "status": 200,
    }
    if dialect is None:
        return ModelCall(**settings, request=payload, response={"said": text})
    module = MODULES[dialect]
    settings |= {"messages": module.messages(payload), "request": module.without_messages(payload)}
    settings |= {"response": render_response(dialect, Reply(text), serial=index)}
    return ModelCall(**{**settings, **fields})


def replayed(model: Any, *requests: ModelRequest) -> list[Answered]:
    async def run():
        return [await ask(model, request) for request in requests]

    return asyncio.run(run())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_calls_get_the_same_answers_streamed_or_not(dialect: DialectName):
    calls = [recorded(0, call(dialect), "one"), recorded(1, call(dialect, temperature=0.5, stream=True), "two")]
    model = ReplayModel(calls)
    first, second = replayed(model, call(dialect, stream=True), call(dialect, temperature=0.5, user="x"))
    assert first.headers["content-type"].startswith("text/event-stream")
    assert b"one" in first.body
    assert second.json == calls[1].response


def test_a_conversation_stored_as_new_messages_only():
    short, long = [user("a")], [user("a"), user("b"), user("c")]
    calls = [
        recorded(0, call(messages=short), "one"),
        recorded(1, call(messages=long), "two", known=KnownMessages(call=0, count=1), messages=long[1:]),
        recorded(2, call(messages=long[:2]), "three", known=KnownMessages(call=1, count=2), messages=[]),
    ]
    answers = replayed(ReplayModel(calls), *(call(messages=part) for part in (short, long, long[:2])))
    assert [answered.json["choices"][0]["message"]["content"] for answered in answers] == ["one", "two", "three"]


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"temperature": 0.7}, r"request.temperature was 0.5, is now 0.7"),
        ({"messages": [user("other")]}, r'messages\[0\].content was "hello", is now "other"'),
        ({"messages": [user("hello"), user("more")]}, r"messages had 1 entries, has now 2"),
        ({"tools": []}, r"request.tools was not there, is now \[\]"),
    ],
)
def test_a_different_call_names_the_first_difference(changes: dict[str, Any], difference: str):
    model = ReplayModel([recorded(0, call(temperature=0.5), "one")])
    with pytest.raises(ProviderError, match=rf"call 0 of the recording was another one: {difference}") as caught:
        replayed(model, call(**{"temperature": 0.5, **changes}))
    assert not caught.value.retryable


def test_calls_come_in_their_order():
    model = ReplayModel([recorded(0, call(n=1), "one"), recorded(1, call(n=2), "two")])
    with pytest.raises(ProviderError, match=r"call 0 .*request.n was 1, is now 2"):
        replayed(model, call(n=2))


def test_calls_that_ran_side_by_side_may_come_in_any_order():
    calls = [recorded(0, call(n=1), "one", duration_sec=5.0), recorded(1, call(n=2), "two")]
    second, first = replayed(ReplayModel(calls), call(n=2), call(n=1))
    assert (b"one" in first.body, b"two" in second.body) == (True, True)


def test_one_call_too_many():
    with pytest.raises(ProviderError, match="its 1 calls are replayed"):
        replayed(ReplayModel([recorded(0, call(), "one")]), call(), call())


def test_every_trial_replays_from_the_start():
    model = ReplayModel([recorded(0, call(), "one")])
    for _ in range(2):
        assert b"one" in replayed(for_trial(model), call())[0].body


def test_failures_come_again_but_not_those_that_were_repeated_or_never_reached_a_model():
    def failed(index: int, kind: Any, status: int) -> ModelCall:
        error = CallError(kind=kind, status=status, message=f"failure {index}")
        return recorded(index, call(), error=error, status=status, response=None)

    calls = [
        failed(0, "provider", 500),
        recorded(1, call(), "one", retry_of=0),
        failed(2, "agent", 400),
        failed(3, "budget", 429),
        failed(4, "disconnected", 200),
        failed(5, "provider", 503),
    ]
    model = ReplayModel(calls)
    first, bad = replayed(model, call(), call())
    assert b"one" in first.body
    assert (bad.status, bad.json["error"]["message"]) == (400, "failure 2")
    with pytest.raises(ProviderError, match="failure 5"):
        replayed(model, call())


def test_other_paths_are_replayed_when_recorded_and_made_up_when_not():
    embedding = ModelRequest("/v1/embeddings", payload={"input": "x"})
    model = ReplayModel([recorded(0, call(), "one"), recorded(1, embedding, "vector")])
    listed, vector, one = replayed(model, ModelRequest("/v1/models", method="GET"), embedding, call())
    assert listed.json["object"] == "list"
    assert vector.json == {"said": "vector"}
    assert b"one" in one.body


def test_reading_a_file(tmp_path: Path):
    path = tmp_path / "calls.jsonl"
    lines = [recorded(index, call(n=index), "x").model_dump_json() for index in range(2)]
    path.write_text("\n".join(lines) + "\n")
    assert len(replayed(ReplayModel.from_file(path), call(n=0), call(n=1))) == 2
    path.write_text(lines[0] + "\n{}\n")
    with pytest.raises(UsageError, match=r"line 2 of .*calls.jsonl is not a recorded call"):
        ReplayModel.from_file(path)
    with pytest.raises(UsageError, match="cannot be read"):
        ReplayModel.from_file(tmp_path)


@pytest.mark.parametrize("stored", ["once", "in place"])
def test_tools_that_are_kept_once_and_marks_that_stand_elsewhere(tmp_path: Path, stored):
    tools = [{"name": "Bash", "description": "runs " * 100, "input_schema": {}}]
    mark = {"cache_control": {"type": "ephemeral"}}

    def asked(*texts: str, marked: int | None = None) -> ModelRequest:
        blocks = [{"type": "text", "text": text} for text in texts]
        content = [{**block, **mark} if place == marked else block for place, block in enumerate(blocks)]
        return call("anthropic", messages=[{"role": "user", "content": [each]} for each in content], tools=tools)

    before = [recorded(0, asked("a", marked=0), "one"), recorded(1, asked("a", "b", marked=1), "two")]
    path = tmp_path / "calls.jsonl"
    if stored == "once":
        with CallLog(tmp_path) as log:
            for each in before:
                log.write(each)
    else:
        path.write_text("\n".join(each.model_dump_json() for each in before))
    model = ReplayModel.from_file(path)
    assert [b"one" in each.body for each in replayed(model, asked("a"), asked("a", "b", marked=0))] == [True, False]
    tools *= 2
    with pytest.raises(ProviderError, match=r"request\.tools"):
        replayed(model.fresh(), asked("a"))


def test_a_recording_with_a_hole():
    with pytest.raises(UsageError, match="builds on call 7"):
        ReplayModel([recorded(0, call(), "x", known=KnownMessages(call=7, count=1))])


@given(JSON, JSON)
def test_a_difference_is_named_exactly_when_the_hashes_differ(before: Any, now: Any):
    assert (first_difference(before, now) is None) == (fingerprint(before) == fingerprint(now))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("spoken", DIALECTS)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_answers_of_an_upstream_that_spoke_another_dialect_are_told_as_the_agent_heard_them(dialect, spoken, stream):
    request = call(dialect, stream=stream)
    told = recorded(0, call(dialect), response=render_response(spoken, Reply("hello"), serial=1))
    (answered,) = replayed(ReplayModel([told]), request)
    assert answered.status == 200
    expected = render_response(dialect, Reply("hello"), serial=1)
    assert b"hello" in answered.body
    if not stream:
        assert MODULES[dialect].holds_answer(answered.json)
        assert MODULES[dialect].finish_reason(answered.json) == MODULES[dialect].finish_reason(expected)


def test_an_error_of_another_dialect_is_told_in_the_agents():
    error = CallError(kind="agent", status=400, message="too long")
    told = recorded(0, call("anthropic"), status=400, error=error, response={"error": {"message": "too long"}})
    (answered,) = replayed(ReplayModel([told]), call("anthropic"))
    assert (answered.status, answered.json["type"], answered.json["error"]["message"]) == (400, "error", "too long")


def codex(run: int, output: str) -> ModelRequest:
    """What Codex asks in one of its runs: it makes up names for messages, and its commands tell times."""
    items = [
        {"type": "message", "id": f"msg_{run}", "role": "user", "content": "go"},
        {"type": "function_call", "name": "run", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "id": f"fco_{run}", "call_id": "c", "output": output},
    ]
    return call("openai_responses", messages=items, client_metadata={"session": run})


def test_another_run_of_an_agent_that_makes_up_names_and_tells_times():
    model = ReplayModel([recorded(0, codex(1, "Chunk ID: 5c18f4\nWall time: 0.03 s\nx.txt"), "yes")])
    (answered,) = replayed(model, codex(2, "Chunk ID: 81e395\nWall time: 0.1 s\nx.txt"))
    assert answered.json["output"][0]["content"][0]["text"] == "yes"


@pytest.mark.parametrize("output", ["Chunk ID: 81e395\nWall time: 0.1 s\ny.txt", "nothing"])
def test_other_words_of_a_tool_are_another_call(output):
    model = ReplayModel([recorded(0, codex(1, "Chunk ID: 5c18f4\nWall time: 0.03 s\nx.txt"), "yes")])
    with pytest.raises(ProviderError, match=r"messages\[2\].output was"):
        replayed(model, codex(2, output))


def test_numbers_that_the_user_says_count():
    model = ReplayModel([recorded(0, call(messages=[user("add 1")]), "yes")])
    with pytest.raises(ProviderError, match="was another one"):
        replayed(model, call(messages=[user("add 2")]))


def test_the_same_call_goes_before_one_that_differs_in_numbers():
    first, second = codex(1, "took 1 s"), codex(1, "took 2 s")
    calls = [recorded(0, first, "one"), recorded(1, second, "two", started_at=START)]
    (answered,) = replayed(ReplayModel(calls), second)
    assert answered.json["output"][0]["content"][0]["text"] == "two"
