"""What goes through the gateway comes out as it went in, save what the run itself sets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from yarl import URL

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.calls import conversation
from seatrial.gateway.dialects import PATHS
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import Dialect
from seatrial.testing.fake_provider import Fail, Raw, Say
from tests.gateway.gateways import HELLO, Gateway, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import DIALECTS, KEY, call

ODD = (
    b'{ "model":"m",\n "messages":[{"role":"user","content":"h\\u00e9"}], "max_tokens" : 9,"future":{"b":1e2,"a":null}}'
)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_request_arrives_byte_by_byte_as_it_was_sent(tmp_path, dialect):
    names = {"openai_responses": b"input", "google": b"contents"}
    body = ODD.replace(b"messages", names.get(dialect, b"messages"))
    path = call(dialect).path + ("" if dialect == "google" else "?beta=true")

    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            status, _ = await post(gateway, path, body, **{"anthropic-beta": "x"})
        (got,) = fake.received
        assert (status, got.body, got.path, got.headers["anthropic-beta"]) == (
            200,
            body,
            path,
            "x",
        )
        assert any(KEY in got.headers.get(name, "") for name in ("authorization", "x-api-key", "x-goog-api-key"))
        assert gateway.session.key not in str(got.headers)

    asyncio.run(scenario())


def test_an_answer_arrives_byte_by_byte_as_it_was_given(tmp_path):
    said = b'{"choices" : [ {}], "odd":1.50,\n"usage":{"prompt_tokens":3}}'

    async def scenario() -> None:
        async with gateway_to(tmp_path, Raw(said)) as (gateway, _):
            assert await post(gateway, PATHS["openai_chat"], ODD) == (200, said)
        assert gateway.calls[0].response == orjson.loads(said)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/models", b""),
        ("GET", "/v1/models?limit=3&after_id=a", b""),
        ("GET", "/v1/models/vendor/model-1.5:free", b""),
        ("POST", "/v1/messages/count_tokens?beta=true", b'not even "JSON'),
        ("POST", "/v1/responses/input_tokens", b"{}"),
        ("POST", "/v1/embeddings", b'{"model": "e"}'),
    ],
)
def test_paths_beside_the_dialects_are_passed_on_both_ways(tmp_path, method, path, body):
    answer = Raw(b"\x00 anything", status=418, headers={"content-type": "image/png", "x-ratelimit-limit": "7"})

    async def scenario() -> None:
        async with (
            gateway_to(tmp_path, answer) as (gateway, fake),
            gateway.plain() as client,
            client.request(method, URL(path, encoded=True), data=body or None) as response,
        ):
            assert (response.status, await response.read()) == (418, b"\x00 anything")
            assert (response.content_type, response.headers["x-ratelimit-limit"]) == ("image/png", "7")
        (got,) = fake.received
        assert (got.method, got.path, got.body) == (method, path, body)
        costs = path.endswith("/embeddings")
        assert [(call.dialect, call.path, call.status) for call in gateway.calls] == [(None, path, 418)] * costs

    asyncio.run(scenario())


def test_what_embeddings_take_counts(tmp_path):
    said = b'{"data":[{"embedding":[0.5]}],"model":"m","usage":{"prompt_tokens":8,"total_tokens":8}}'

    async def scenario() -> None:
        async with gateway_to(tmp_path, Raw(said), Raw(said), max_tokens=8) as (gateway, fake):
            assert await post(gateway, "/v1/embeddings", b'{"model":"m","input":"x"}') == (200, said)
            assert (await post(gateway, "/v1/embeddings", b'{"model":"m","input":"x"}'))[0] == 429
        assert len(fake.received) == 1
        assert gateway.session.usage.input_tokens == 8
        assert gateway.session.usage.cost_usd == pytest.approx(8e-6)
        assert gateway.calls[0].response == {"model": "m", "usage": {"prompt_tokens": 8, "total_tokens": 8}}

    asyncio.run(scenario())


@pytest.mark.parametrize("header", ["anthropic-beta", "user-agent", "x-stainless-os"])
def test_no_header_makes_the_gateway_fail(tmp_path, header):
    """A trial that fails by us is not counted: an agent must not be able to choose that."""

    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
            head = f"POST {PATHS['anthropic']} HTTP/1.1\r\nhost: x\r\nx-api-key: {gateway.session.key}\r\n"
            body = call("anthropic").body
            writer.write(f"{head}{header}: ".encode() + b"\xff\xfe\r\n")
            writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)
            assert (await reader.readline()).split()[1] == b"200"
            writer.close()
            await writer.wait_closed()
        assert len(fake.received) == 1
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_no_path_leads_past_the_limits(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=1) as (gateway, fake), gateway.plain() as client:
            for expected in (200, 429):
                async with client.post("/v1/embeddings", data=b"{}") as response:
                    assert response.status == expected
            async with client.get("/v1/models") as response:
                assert response.status == 200
        assert [got.path for got in fake.received] == ["/v1/embeddings", "/v1/models"]
        assert [call.error and call.error.kind for call in gateway.calls] == [None, "budget"]

    asyncio.run(scenario())


def test_a_path_of_no_call_fails_without_failing_the_trial(tmp_path):
    async def scenario() -> None:
        async with (
            gateway_to(tmp_path, Fail(503)) as (gateway, _),
            gateway.plain() as client,
            client.get("/v1/models") as response,
        ):
            assert (response.status, response.headers["x-should-retry"]) == (503, "false")
        assert gateway.session.failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "anthropic"])  # Google's: test_google_calls.py
def test_the_agents_sampling_survives_and_the_runs_goes_before_it_where_set(tmp_path, dialect):
    request = call(dialect, temperature=0.25, top_p=0.5)

    async def scenario() -> None:
        async with gateway_to(tmp_path, model="run", sampling={"temperature": 1.0, "max_tokens": 77}) as (
            gateway,
            fake,
        ):
            await post(gateway, request.path, request.body)
        sent = fake.received[0].payload
        lengths = {name: value for name, value in sent.items() if name.startswith("max_")}
        assert (sent["model"], sent["temperature"], sent["top_p"]) == ("run", 1.0, 0.5)
        assert 77 in lengths.values()
        (kept,) = gateway.calls
        assert (kept.model, kept.upstream_model) == ("m", "run")
        assert kept.request is not None
        assert kept.request["temperature"] == 1.0

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_cannot_be_translated_is_the_agents_mistake_in_its_own_shape(tmp_path, dialect):
    upstream: Dialect = "anthropic" if dialect != "anthropic" else "openai_chat"

    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks=upstream, translation="strict") as (gateway, fake):
            request = call(dialect, invented_field={"x": 1})
            status, body = await post(gateway, request.path, request.body)
        error = orjson.loads(body)["error"]
        kind = ("status", "INVALID_ARGUMENT") if dialect == "google" else ("type", "invalid_request_error")
        assert (status, len(fake.received), error[kind[0]]) == (400, 0, kind[1])
        assert "cannot be translated" in error["message"]
        assert (gateway.calls[0].error or 0).kind == "agent"  # type: ignore[union-attr]
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_every_call_keeps_its_conversation(tmp_path):
    talk = [*HELLO, {"role": "assistant", "content": "a"}, {"role": "user", "content": "more"}]

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a", "b"]), tmp_path) as gateway:
            for messages in (talk[:1], talk):
                await post(gateway, PATHS["openai_chat"], call(messages=messages).body)
        assert [len(each.messages) for each in gateway.calls] == [1, 2]
        assert conversation(gateway.calls, 1) == talk

    asyncio.run(scenario())


@pytest.mark.parametrize("depth", [150, 400, 1000])
@pytest.mark.parametrize("place", ["messages", "metadata"])
@pytest.mark.parametrize("run", [{}, {"model": "other"}])
def test_json_nested_too_deeply_is_passed_on_or_refused_and_noted(tmp_path, depth, place, run):
    deep = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"%s":%s}' % (
        place.encode(),
        b"[" * depth + b"]" * depth,
    )

    async def scenario(*script: Any) -> Gateway:
        async with gateway_to(tmp_path, *script, **run) as (gateway, fake):
            status, _ = await post(gateway, PATHS["openai_chat"], deep)
            again, _ = await post(gateway, PATHS["openai_chat"], ODD)
        assert (status, again) == ((400 if run and depth > 150 else 200), 200)
        # With a model of the run's, what no dialect has could name another one.
        assert fake.received[-1].payload.get("future") == (None if run else {"b": 100.0, "a": None})
        return gateway

    gateway = asyncio.run(scenario(Say(), Say()))
    assert [each.index for each in gateway.calls] == [0, 1]
    assert conversation(gateway.calls, 1)[0]["content"] == "h\u00e9"


def test_an_answer_nested_too_deeply_is_passed_on_and_counted(tmp_path):
    deep = b'{"choices":[{}],"usage":{"prompt_tokens":3,"completion_tokens":4},"x":' + b"[" * 300 + b"]" * 300 + b"}"

    async def scenario() -> None:
        async with gateway_to(tmp_path, Raw(deep), Raw(deep)) as (gateway, _):
            for _ in range(2):
                assert await post(gateway, PATHS["openai_chat"], ODD) == (200, deep)
        assert [each.response for each in gateway.calls] == [{"not_kept": "nested deeper than 100 levels"}] * 2
        assert gateway.session.usage.output_tokens == 8
        assert [len(conversation(gateway.calls, index)) for index in (0, 1)] == [1, 1]

    asyncio.run(scenario())


def test_a_bug_of_ours_is_not_the_agents_failure(tmp_path):
    class Broken(ScriptedModel):
        @asynccontextmanager
        async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
            raise LookupError("a bug")
            yield

    async def scenario() -> None:
        async with open_gateway(Broken([]), tmp_path) as gateway:
            assert (await post(gateway, PATHS["openai_chat"], ODD))[0] == 500
        assert "LookupError: a bug" in str(gateway.session.failure)
        assert gateway.session.broken.is_set()

    asyncio.run(scenario())


def test_headers_that_are_no_text_do_not_open_anything(tmp_path):
    async def scenario() -> None:
        model = ScriptedModel(["x"])
        async with open_gateway(model, tmp_path) as gateway:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
            writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: \xff\xfe\r\ncontent-length: 0\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"401"
            writer.close()
            await writer.wait_closed()
        assert model.remaining == 1

    asyncio.run(scenario())
