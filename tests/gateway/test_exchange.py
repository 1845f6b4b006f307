"""What goes through the gateway comes out as it went in, save what the run itself sets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from yarl import URL

from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.base import Limits
from seatrial.gateway.calls import CALLS_FILE, conversation
from seatrial.gateway.exchange import error_in_dialect
from seatrial.gateway.upstreams.replay import ReplayModel
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Fail, Raw, Say
from tests.gateway.agent_requests import CLAUDE_CODE, CODEX, PATCH
from tests.gateway.gateways import HELLO, Gateway, Pieces, gateway_to, open_gateway, post
from tests.gateway.strict_upstream import StrictUpstream
from tests.gateway.upstream_calls import DIALECTS, KEY, PATHS, call

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
    upstream: DialectName = "anthropic" if dialect != "anthropic" else "openai_chat"

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


AGENTS: dict[DialectName, dict[str, Any]] = {"anthropic": CLAUDE_CODE, "openai_responses": CODEX}
WAYS: list[tuple[DialectName, DialectName]] = [
    ("anthropic", "openai_chat"),
    ("anthropic", "openai_responses"),
    ("openai_responses", "openai_chat"),
    ("openai_responses", "anthropic"),
]
EFFORT = {"openai_chat": "reasoning_effort", "openai_responses": "reasoning", "anthropic": "thinking"}


async def asked(gateway: Gateway, dialect: DialectName, **changes: Any) -> tuple[int, bytes]:
    body = orjson.dumps({**AGENTS[dialect], **changes})
    return await post(gateway, PATHS[dialect], body, **{"anthropic-beta": "new-2026", "user-agent": "cli/1"})


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_what_is_left_out_is_noted_with_the_first_call_and_for_the_trial(tmp_path, here, there):
    upstream = StrictUpstream(there, ["one", "two"])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path) as gateway:
            assert [(await asked(gateway, here))[0] for _ in range(2)] == [200, 200]
        first, second = gateway.calls
        assert "cache_control" in first.omitted or "client_metadata" in first.omitted
        assert (second.omitted, gateway.session.usage.omitted) == ((), first.omitted)
        assert gateway.session.tally.refused_by_us == 0

    asyncio.run(scenario())
    assert all("anthropic-beta" not in request.headers for request in upstream.taken)
    assert all(request.headers["user-agent"] == "cli/1" for request in upstream.taken)


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_a_setting_that_the_model_refuses_is_left_out_from_then_on(tmp_path, here, there):
    upstream = StrictUpstream(there, ["one", "two"], refuses=[EFFORT[there]])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path) as gateway:
            assert [(await asked(gateway, here))[0] for _ in range(2)] == [200, 200]
        assert upstream.asked == 3
        assert [call.status for call in gateway.calls] == [200, 200]
        effort = {"anthropic": "output_config.effort", "openai_responses": "reasoning.effort"}[here]
        assert effort in gateway.session.usage.omitted

    asyncio.run(scenario())


@pytest.mark.parametrize(("sampling", "status"), [({}, 200), ({"top_p": 0.5}, 400)])
def test_sampling_that_the_model_refuses_is_left_out_unless_the_run_has_set_it(tmp_path, sampling, status):
    upstream = StrictUpstream("anthropic", ["one"], refuses=["top_p"])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path, sampling=sampling) as gateway:
            assert (await asked(gateway, "openai_responses", temperature=1, top_p=0.9))[0] == status
        assert ("top_p" in gateway.session.usage.omitted) == (status == 200)

    asyncio.run(scenario())


def test_a_strict_translation_leaves_nothing_out(tmp_path):
    upstream = StrictUpstream("openai_chat", ["one"], refuses=["reasoning_effort"])
    effort = {
        "tools": None,
        "context_management": None,
        "metadata": None,
        "messages": [{"role": "user", "content": "x"}],
    }

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path, translation="strict") as gateway:
            refused = await asked(gateway, "anthropic")
            unsupported = await asked(gateway, "anthropic", **effort)
        assert refused[0] == unsupported[0] == 400
        assert b"`context_management` cannot be translated" in refused[1]
        said = orjson.loads(unsupported[1])["error"]["message"]
        assert "`reasoning_effort` is what `output_config.effort` was translated to" in said

    asyncio.run(scenario())
    assert upstream.asked == 1


@pytest.mark.parametrize(
    ("there", "told", "left_out"),
    [
        ("anthropic", "output_config.effort: Input should be 'low'", "reasoning.effort"),
        ("anthropic", "adaptive thinking is not supported on this model", "reasoning.effort"),
        ("openai_chat", "Unsupported parameter: 'parallel_tool_calls'", "parallel_tool_calls"),
        ("anthropic", "messages.1.content.0.thinking.signature: Field required", None),
        ("openai_chat", "the prompt is too long", None),
    ],
)
def test_refusals_that_speak_of_a_setting_are_told_apart(tmp_path, there, told, left_out):
    async def scenario() -> None:
        script = (Fail(400, told), Say("ok"))
        async with gateway_to(tmp_path, *script, speaks=there) as (gateway, _):
            status, _ = await asked(gateway, "openai_responses")
        assert status == (400 if left_out is None else 200)
        assert left_out is None or left_out in gateway.session.usage.omitted

    asyncio.run(scenario())


def test_errors_name_what_the_agent_sent():
    told = error_in_dialect(400, "Unknown parameter: 'text.format'.", "openai_responses", "anthropic")
    assert "`text.format` is what `output_config.format` was translated to" in orjson.loads(told)["error"]["message"]
    told = error_in_dialect(400, "messages: too long", "anthropic", "openai_chat")
    assert orjson.loads(told)["error"]["message"] == "messages: too long"


def test_other_refusals_are_the_agents_to_hear(tmp_path):
    async def scenario() -> None:
        script = (Fail(400, "the prompt is too long"), Say("ok"))
        async with gateway_to(tmp_path, *script, speaks="openai_chat") as (gateway, fake):
            status, said = await asked(gateway, "anthropic", stream=False)
        assert (status, len(fake.received)) == (400, 1)
        assert orjson.loads(said)["error"]["message"] == "the prompt is too long"

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("there", ["openai_chat", "anthropic"])
def test_a_patch_reaches_codex_as_the_text_that_it_wants(tmp_path, there, stream):
    line = {"tool_calls": [{"name": "apply_patch", "id": "c9", "arguments": {"input": PATCH}}]}
    upstream = StrictUpstream(there, [line])

    async def scenario() -> None:
        async with open_gateway(upstream, tmp_path) as gateway:
            status, said = await asked(gateway, "openai_responses", stream=stream)
            assert status == 200
            told = said
        async with open_gateway(ReplayModel.from_file(tmp_path / CALLS_FILE), tmp_path / "again") as gateway:
            status, again = await asked(gateway, "openai_responses", stream=stream)
        for body in (told, again):
            (call,) = _answer(body, stream=stream)["output"]
            assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", PATCH)
            assert call["call_id"] == "c9"
            assert (b"response.custom_tool_call_input.done" in body) == stream

    (tmp_path / "again").mkdir()
    asyncio.run(scenario())


def _answer(body: bytes, *, stream: bool) -> Any:
    if not stream:
        return orjson.loads(body)
    last = [line for line in body.splitlines() if line.startswith(b"data:")][-1]
    return orjson.loads(last.removeprefix(b"data:"))["response"]


@pytest.mark.parametrize(
    ("path", "there", "counts"),
    [
        ("/v1/messages/count_tokens", "openai_chat", True),
        ("/v1/responses/input_tokens", "anthropic", True),
        ("/v1/messages/count_tokens?beta=true", "anthropic", False),
    ],
)
def test_tokens_are_estimated_for_agents_that_the_upstream_does_not_understand(tmp_path, path, there, counts):
    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks=there) as (gateway, fake):
            status, said = await post(gateway, path, b'{"messages": []}' + b" " * 24)
        assert status == 200
        assert bool(fake.received) != counts
        if counts:
            assert orjson.loads(said)["input_tokens"] == 10
        assert gateway.calls == []

    asyncio.run(scenario())


class Lingering(StrictUpstream):
    """Says everything, and closes its answer only when it is told to."""

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        async with super().ask(request) as reply:

            async def chunks() -> AsyncIterator[bytes]:
                async for chunk in reply.chunks:
                    yield chunk
                await asyncio.Event().wait()

            yield reply._replace(chunks=chunks(), whole=None)


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_whoever_hangs_up_at_the_last_word_has_had_the_answer(tmp_path, here, there):
    last = {"anthropic": b"message_stop", "openai_responses": b"response.completed"}[here]

    async def scenario() -> None:
        async with (
            open_gateway(Lingering(there, ["all of it"]), tmp_path) as gateway,
            gateway.plain() as client,
            client.post(PATHS[here], json=AGENTS[here]) as response,
        ):
            heard = b""
            while last not in heard:
                heard += await response.content.readany()
            response.close()
        (call,) = gateway.calls
        assert (call.status, call.error) == (200, None)

    asyncio.run(asyncio.wait_for(scenario(), 30))


_HEAD = '"id":"1","object":"chat.completion.chunk","created":0,"model":"m"'
_CHUNKS = (
    ": a comment",
    f'data: {{{_HEAD},"choices":[{{"index":0,"delta":{{"content":"h\u00e9"}},"finish_reason":null}}]}}',
    f'data: {{{_HEAD},"choices":[{{"index":0,"delta":{{}},"finish_reason":"stop"}}]}}',
    f'data: {{{_HEAD},"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":2}}}}',
    "data: [DONE]",
)
STREAM = "".join(f"{chunk}\n\n" for chunk in _CHUNKS)


def cuts() -> list[list[bytes]]:
    """The stream in one piece, in lines, byte by byte, and cut in two at every place around the count of tokens."""
    whole = STREAM.encode()
    start, end = whole.index(_CHUNKS[3].encode()), len(whole)
    halves = [[whole[:place], whole[place:]] for place in range(start - 3, end, 7)]
    return [[whole], whole.splitlines(keepends=True), [bytes([each]) for each in whole], *halves]


@pytest.mark.parametrize("pieces", cuts())
def test_the_count_of_tokens_is_kept_and_only_shown_if_asked_for(tmp_path, pieces):
    asked: dict[str, Any] = {"stream_options": {"include_usage": True}}

    async def scenario() -> None:
        async with open_gateway(Pieces(pieces), tmp_path) as gateway:
            answers = [
                await post(gateway, PATHS["openai_chat"], call(stream=True, **more).body) for more in (asked, {})
            ]
        shown, hidden = (body.decode() for _, body in answers)
        assert shown == STREAM
        wanted = [line for line in STREAM.splitlines() if line.startswith("data") and "usage" not in line]
        assert [line for line in hidden.splitlines() if line.startswith("data")] == wanted
        assert hidden.count("\n\n") >= len(wanted)
        assert [each.usage and each.usage.input_tokens for each in gateway.calls] == [3, 3]

    asyncio.run(scenario())


def test_a_last_event_without_its_blank_line_is_passed_on_too(tmp_path):
    async def scenario() -> None:
        async with open_gateway(Pieces([STREAM.rstrip().encode()]), tmp_path) as gateway:
            _, body = await post(gateway, PATHS["openai_chat"], call(stream=True).body)
            _, translated = await post(gateway, PATHS["anthropic"], call("anthropic", stream=True).body)
        assert body.endswith(b"data: [DONE]\n\n")
        assert b"message_stop" in translated
        assert [each.error for each in gateway.calls] == [None, None]

    asyncio.run(scenario())


@pytest.mark.parametrize("upstream", ["openai_chat", "openai_responses", "anthropic"])
@pytest.mark.parametrize("asked", [True, False])
def test_the_count_is_hidden_in_translated_streams_too(tmp_path, upstream, asked):
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}

    async def scenario() -> None:
        async with gateway_to(tmp_path, speaks=upstream) as (gateway, _):
            _, body = await post(gateway, PATHS["openai_chat"], call(stream=True, **options).body)
        assert (b'"prompt_tokens"' in body) == asked
        assert gateway.calls[0].usage is not None

    asyncio.run(scenario())


class Endless(Pieces):
    """Goes on for ever, in events or in a single line."""

    def __init__(self, piece: bytes) -> None:
        super().__init__([])
        self._piece = piece
        self.sent = 0

    @asynccontextmanager
    async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
        async def chunks() -> AsyncIterator[bytes]:
            yield b'data: {"choices":[{"index":0,"delta":{"content":"'
            while True:
                self.sent += len(self._piece)
                yield self._piece

        yield ModelReply(200, {"content-type": "text/event-stream"}, chunks())


AN_EVENT = b'"}}]}\n\ndata: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 999


@pytest.mark.parametrize("piece", [AN_EVENT, b"x" * 999], ids=["events", "a line"])
@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_a_stream_without_an_end_is_ended_with_an_error_and_is_the_agents_own_affair(tmp_path, piece, dialect):
    async def scenario() -> None:
        upstream = Endless(piece)
        async with open_gateway(upstream, tmp_path, limits=Limits(spool=tmp_path, answer_bytes=2**20)) as gateway:
            asked = call(dialect, stream=True)
            status, said = await post(gateway, asked.path, asked.body)
            assert (status, b"answers under way are larger than 1,048,576 bytes" in said[-400:]) == (200, True)
            assert 2**20 - 2**15 < upstream.sent < 2**20 + 2**17
            assert (gateway.session.failure, gateway.session.bodies.answers) == (None, 0)
            (kept,) = gateway.calls
            assert (kept.error and kept.error.kind, kept.status) == ("agent", 200)
            assert (tmp_path / "calls.jsonl").stat().st_size < 2**21

    asyncio.run(asyncio.wait_for(scenario(), 60))
