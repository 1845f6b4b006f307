"""ScriptedModel and FunctionModel: models without a provider."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from seatrial.errors import ProviderError, UsageError
from seatrial.gateway.api import ModelRequest, for_trial
from seatrial.gateway.upstreams.function import FunctionModel
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from tests.gateway.upstream_calls import DIALECTS, Answered, ask, call


def said(upstream: Any, *requests: ModelRequest) -> list[Answered]:
    async def run():
        return [await ask(upstream, request) for request in requests]

    return asyncio.run(run())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_lines_are_said_in_order_in_any_dialect_streamed_or_not(dialect: DialectName):
    model = ScriptedModel(["first reply of several pieces", {"text": "second"}])
    first, second = said(model, call(dialect, stream=True), call(dialect))
    assert first.headers["content-type"].startswith("text/event-stream")
    assert len(first.chunks) > 2
    assert second.headers["content-type"] == "application/json"
    assert b"second" in second.body
    assert model.remaining == 0


def test_running_out_of_lines_is_a_loud_error_that_no_retry_mends():
    with pytest.raises(ProviderError, match="ran out: all its 1 replies are said") as caught:
        said(ScriptedModel(["only"]), call(), call())
    assert not caught.value.retryable


def test_every_trial_starts_at_the_first_line():
    model = ScriptedModel(["a"])
    for _ in range(2):
        trial = for_trial(model)
        assert b'"a"' in said(trial, call())[0].body
    assert model.remaining == 1


def test_tool_calls_and_usage():
    line = {"tool_calls": [{"name": "run", "arguments": {"command": "ls"}}], "usage": {"input_tokens": 7}}
    (answered,) = said(ScriptedModel([line]), call())
    choice = answered.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "run", "arguments": '{"command":"ls"}'}
    assert answered.json["usage"]["prompt_tokens"] == 7


def test_usage_is_estimated_the_same_every_time():
    first, second = (said(ScriptedModel(["some words"]), call())[0] for _ in range(2))
    assert first == second
    assert first.json["usage"]["prompt_tokens"] > 10
    assert first.json["usage"]["completion_tokens"] == 3


def test_usage_streams_only_if_asked_for_in_chat():
    model = ScriptedModel(["a", "b"])
    without, asked = said(model, call(stream=True), call(stream=True, stream_options={"include_usage": True}))
    assert b"prompt_tokens" not in without.body
    assert b"prompt_tokens" in asked.body


def test_scripted_errors_are_the_agents_or_the_providers_by_their_status():
    script = ScriptedModel(
        [{"error": {"status": 400, "message": "bad"}}, {"error": {"status": 503, "message": "down"}}]
    )
    (bad,) = said(script, call("anthropic"))
    assert (bad.status, bad.json["type"], bad.json["error"]["message"]) == (400, "error", "bad")
    with pytest.raises(ProviderError, match="down") as caught:
        said(script, call())
    assert caught.value.status == 503


def test_raw_answers_are_sent_as_they_are():
    whole = {"id": "x", "choices": [], "anything": 1}
    first, second = said(ScriptedModel([{"raw": whole}, {"raw": "{broken"}]), call(), call())
    assert first.json == whole
    assert second.body == b"{broken"


def test_other_paths_take_no_line():
    model = ScriptedModel(["a"])
    count = ModelRequest("/v1/messages/count_tokens", payload={"messages": ["x" * 40]})
    listed, one, counted, unknown = said(
        model,
        ModelRequest("/v1/models", method="GET"),
        ModelRequest("/v1/models/gpt-5", method="GET"),
        count,
        ModelRequest("/v1/files", method="GET"),
    )
    assert listed.json["data"][0]["id"] == "scripted"
    assert one.json["id"] == "gpt-5"
    assert counted.json["input_tokens"] > 10
    assert unknown.status == 404
    assert model.remaining == 1


@pytest.mark.parametrize("text", ['["a", {"text": "b"}]', '"a"\n\n{"text": "b"}\n', '\ufeff"a"\n{"text":"b"}'])
def test_scripts_are_lists_or_lines(tmp_path: Path, text: str):
    path = tmp_path / "script"
    path.write_text(text, encoding="utf-8")
    assert ScriptedModel.from_file(path).remaining == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('"a"\n{"text": ', "line 2 of .* is not JSON"),
        ("[1, ", "begins like a JSON list"),
        ('"a"\n3', "reply 2 of "),
        ('{"raw": {}, "text": "a"}', "`raw` stands alone"),
        ('{"error": {"status": 200}}', "400 to 599"),
        ('{"error": "x"}', "has a `status`"),
    ],
)
def test_scripts_that_make_no_sense_name_the_place(tmp_path: Path, text: str, complaint: str):
    path = tmp_path / "script"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        ScriptedModel.from_file(path)


def test_a_script_that_is_not_there(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read"):
        ScriptedModel.from_file(tmp_path / "none")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_functions_answer_in_their_dialect(dialect: DialectName):
    def policy(payload: dict[str, Any]) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"I am {payload['model']}"

    model = FunctionModel(policy, dialect)
    assert model.dialects == {dialect}
    whole, stream = said(model, call(dialect), call(dialect, stream=True))
    assert b"I am m" in whole.body
    assert len(stream.chunks) > 1


def test_async_functions_and_whole_responses_with_token_ids():
    message = {"role": "assistant", "content": "hi"}
    response = {"id": "1", "choices": [{"index": 0, "message": message, "token_ids": [1, 2]}]}

    async def policy(_: dict[str, Any]) -> dict[str, Any]:
        return response

    assert said(FunctionModel(policy), call())[0].json == response


def test_what_a_function_raises_is_a_failure_of_the_provider():
    def broken(_: dict[str, Any]) -> str:
        raise RuntimeError("out of memory")

    with pytest.raises(ProviderError, match="RuntimeError: out of memory"):
        said(FunctionModel(broken, name="policy"), call())


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_json_cannot_be_sent(stream: bool):
    with pytest.raises(ProviderError, match="cannot be sent"):
        said(FunctionModel(lambda _: "\ud800"), call(stream=stream))


def test_what_a_function_must_not_return():
    with pytest.raises(ProviderError, match="has to return text"):
        said(FunctionModel(lambda _: 3), call())  # type: ignore[arg-type,return-value]


def test_a_function_is_asked_in_this_process_as_by_the_gateway():
    payload = call().payload or {}
    here = asyncio.run(FunctionModel(lambda _: "ok").respond(payload))
    assert here == said(FunctionModel(lambda _: "ok"), call())[0].json
    with pytest.raises(ProviderError, match="this answer cannot be sent"):
        asyncio.run(FunctionModel(lambda _: "\ud800").respond(payload))
    with pytest.raises(ProviderError, match="this answer cannot be sent"):
        asyncio.run(FunctionModel(lambda _: {"choices": [object()]}).respond(payload))
