"""Every dialect is complete: what a `Dialect` says of itself fits together, and calls in it go through a gateway."""

import asyncio
from typing import Any

import orjson
import pytest

from seatrial.gateway.access import agent_variables
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.base import SseReader
from seatrial.gateway.budget import most_of
from seatrial.gateway.dialects import DIALECTS, PROVIDERS, call_body, call_path, dialect_of, with_one_model
from seatrial.gateway.dialects.base import Dialect
from seatrial.gateway.fields import told_error
from seatrial.gateway.neutral.types import Losses
from seatrial.gateway.routes import Route, find_route
from seatrial.gateway.translate import translate, translate_request
from seatrial.gateway.upstreams.failures import is_answer
from seatrial.gateway.upstreams.open import make_upstream
from seatrial.gateway.upstreams.replies import Reply, ReplyCall, render_response, render_stream
from seatrial.model.trace import TokenUsage
from seatrial.testing.fake_provider import Say
from tests.gateway.gateways import gateway_to, post

every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
REPLY = Reply("I look into it, word by word.", (ReplyCall("ls", '{"path": "."}', "call_1"),))
USAGE = TokenUsage(input_tokens=9, output_tokens=5)


def asked(dialect: Dialect, most: int | None = 40, *, stream: bool = False) -> ModelRequest:
    payload = {"model": "m", **dialect.probe("Say hello.", most), **({"stream": True} if stream else {})}
    path, body = call_path(dialect.name, payload), call_body(dialect.name, payload)
    return ModelRequest(path, dialect=dialect.name, payload=payload, body=body, stream=stream)


def test_no_two_share_a_path_or_a_name():
    paths = [each.path for each in DIALECTS.values() if each.path]
    counts = [each.count_path for each in DIALECTS.values() if each.count_path]
    assert len({*paths, *counts}) == len([*paths, *counts])
    assert len({each.title for each in DIALECTS.values()}) == len(DIALECTS)
    assert all(name == each.name for name, each in DIALECTS.items())


@every_dialect
def test_its_calls_have_a_route(dialect: Dialect):
    request = asked(dialect)
    assert bool(dialect.path) != (dialect.model_paths is not None)
    assert dialect_of(request.path) == dialect.name
    assert find_route("POST", request.path) == Route(request.path, dialect.name, counts=True)
    if dialect.count_path:
        assert isinstance(find_route("POST", dialect.count_path), Route)
    assert 7 in dialect.count_answer(7).values()


@every_dialect
def test_its_provider_and_its_agents_are_known(dialect: Dialect):
    provider = dialect.provider
    assert PROVIDERS[provider.name] is provider
    environ = dict.fromkeys(provider.key_variables, "sk-1")
    assert dialect.name in make_upstream(provider.name, environ).dialects
    variables = agent_variables("http://gateway", "key")
    assert all(variables[name] == f"http://gateway{provider.url_end}" for name in provider.url_variables)
    assert all(variables[name] == "key" for name in provider.key_variables)


@every_dialect
def test_its_requests_are_understood(dialect: Dialect):
    payload = asked(dialect).payload or {}
    assert dialect.check(payload) is None
    assert dialect.check({}) is not None
    assert dialect.check([]) is not None
    (message,) = dialect.messages(payload)
    assert b"Say hello." in orjson.dumps(message)
    assert b"Say hello." not in orjson.dumps(dialect.without_messages(payload))
    assert with_one_model(payload) == (payload, ())
    assert payload.keys() - {"stream", *dialect.output_limits} <= dialect.request_fields | dialect.content_fields
    assert dialect.input_fields <= dialect.content_fields
    again = dialect.with_overrides(payload, "other", {"max_tokens": 99})
    assert again["model"] == "other"
    assert 99 in [dialect.settings(again).get(name) for name in dialect.output_limits]
    assert most_of(asked(dialect), None).tokens == len(asked(dialect).body) + 40


@every_dialect
def test_its_answers_are_understood_whole_and_as_streams(dialect: Dialect):
    answer = render_response(dialect.name, REPLY, usage=USAGE)
    assert (dialect.holds_answer(answer), dialect.holds_answer({})) == (True, False)
    assert is_answer(orjson.dumps(answer), dialect.name)
    assert isinstance(answer[dialect.answer_field], list)
    assert dialect.finish_reason(answer)
    assert dialect.counts(answer) == {
        "input_tokens": 9,
        "cached_tokens": 0,
        "output_tokens": 5,
        "reasoning_tokens": 0,
    }
    items, stop = dialect.read_content(answer)
    assert (len(items), stop) == (2, "tool_calls")
    reader, assembler = SseReader(), dialect.assembler()
    for event in reader.feed(b"".join(render_stream(dialect.name, answer))):
        assembler.feed(event)
    assert (assembler.finished, assembler.first_token, assembler.error, assembler.garbled) == (True, True, None, None)
    assembled = assembler.response() or {}
    assert (dialect.read_content(assembled), dialect.counts(assembled)) == ((items, stop), dialect.counts(answer))


@every_dialect
def test_its_errors_are_its_own(dialect: Dialect):
    body = dialect.error_body(429, "provider", "slow down")
    told = told_error(body)
    assert told is not None
    assert told.message == "slow down"
    assert not dialect.holds_answer(body)
    recognized = [each.name for each in DIALECTS.values() if each.is_error is not None and each.is_error(body)]
    assert recognized in ([], [dialect.name])
    assembler = dialect.assembler()
    assembler.feed(dialect.error_event(500, "provider", "broken"))
    assert assembler.error is not None
    assert assembler.error.message == "broken"


@every_dialect
def test_what_it_may_refuse_are_settings_of_a_request(dialect: Dialect):
    request = dialect.read_request(asked(dialect).payload or {}, Losses("lenient"))
    named = {field for fields in dialect.refusable.values() for field in fields}
    assert all(hasattr(request, name) for name in named)


@every_dialect
def test_its_requests_are_translated_into_all_others_and_back(dialect: Dialect):
    payload = asked(dialect).payload or {}
    for other in DIALECTS:
        there = translate_request(payload, dialect.name, other)
        assert DIALECTS[other].check(there) is None
        back = translate(there, other, dialect.name, "lenient").payload
        assert dialect.messages(back)
        assert 40 in [dialect.settings(back).get(name) for name in dialect.output_limits]


@every_dialect
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("speaks", DIALECTS)
def test_a_call_goes_through_a_gateway(tmp_path, dialect: Dialect, speaks: Any, stream: bool):
    request = asked(dialect, stream=stream)

    async def scenario() -> None:
        async with gateway_to(tmp_path, Say(REPLY), speaks=speaks) as (gateway, fake):
            status, said = await post(gateway, request.path, request.body)
        assert status == 200
        (sent,) = fake.received
        name, before = DIALECTS[speaks].key_header
        assert sent.headers[name].startswith(before)
        assert dialect_of(sent.path) == speaks
        assembler = dialect.assembler()
        for event in SseReader().feed(said) if stream else []:
            assembler.feed(event)
        items, _ = dialect.read_content((assembler.response() or {}) if stream else orjson.loads(said))
        assert len(items) == 2
        (call,) = gateway.calls
        assert (call.dialect, call.model, call.stream, call.error) == (dialect.name, "m", stream, None)
        assert call.usage is not None

    asyncio.run(scenario())
