"""What no model says: HTML, broken JSON, streams that are none. It is the provider's failure, never the agent's."""

import asyncio
import gzip
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.errors import ModelSilentError
from seatrial.gateway.base import Limits
from seatrial.gateway.upstreams.failures import could_be_answer, is_answer
from seatrial.testing.fake_provider import Raw, Say
from tests.gateway.gateways import Pieces, gateway_to, open_gateway, post
from tests.gateway.upstream_calls import DIALECTS, PATHS, Naps, call

SSE = {"content-type": "text/event-stream"}
HTML = b"<!doctype html><title>502 Bad Gateway</title>"
GOOD = b'data: {"id":"1","model":"m","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("step", "stream"),
    [
        (Raw(HTML, headers={"content-type": "text/html"}), True),
        (Raw(HTML, headers={"content-type": "text/html"}), False),
        (Raw(HTML, headers=SSE), True),
        (Raw(b"", headers=SSE), True),
        (Raw(b""), False),
        (Raw(b'{"error": "no stream here"}'), True),
        (Raw(b"[]"), False),
        (Raw(b"data: x\n\n", headers=SSE), False),
        (Raw(b"\x1f\x8b\x08 not really", headers={"content-type": "application/json"}), False),
    ],
)
def test_what_cannot_be_an_answer_is_asked_for_again(tmp_path, dialect, step, stream):
    async def scenario() -> None:
        options = {"retries": 1, "naps": Naps()}
        async with gateway_to(tmp_path, step, Say("at last"), upstream=options) as (gateway, fake):
            status, said = await post(gateway, call(dialect, stream=stream).path, call(dialect, stream=stream).body)
            assert (status, b"at l" in said, len(fake.received)) == (200, True, 2)
            fake.script.extend([step, step])
            assert (await post(gateway, call(dialect, stream=stream).path, call(dialect, stream=stream).body))[0] == 502
            assert "is no answer of a model" in str(gateway.session.failure)

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", [b'{"error": {"message": "overloaded"}}', b'{"choices": [], "id": "1"}', b"{}"])
def test_an_error_in_place_of_an_answer_is_asked_for_again(tmp_path, dialect, body):
    async def scenario() -> None:
        options = {"retries": 1, "naps": Naps()}
        async with gateway_to(tmp_path, Raw(body), Say("at last"), upstream=options) as (gateway, fake):
            assert (await post(gateway, call(dialect).path, call(dialect).body))[0] == 200
            fake.script.extend([Raw(body), Raw(body)])
            assert (await post(gateway, call(dialect).path, call(dialect).body))[0] == 502
            assert "is no answer of a model" in str(gateway.session.failure)

    asyncio.run(scenario())


def test_an_error_that_comes_in_pieces_is_the_providers_too(tmp_path):
    async def scenario() -> None:
        async with open_gateway(Pieces([b'{"error": ', b'{"message": "overloaded"}}']), tmp_path) as gateway:
            assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == 502
            assert 'no answer of a model in it: b\'{"error": {"message": "overloaded' in str(gateway.session.failure)

    asyncio.run(scenario())


def test_an_answer_that_is_only_nested_too_deeply_is_the_agents_affair(tmp_path):
    deep = b'{"choices": [{"message": {"content": "x"}, "more": ' + b"[" * 2000 + b"]" * 2000 + b"}]}"

    async def scenario() -> None:
        async with gateway_to(tmp_path, Raw(deep)) as (gateway, _):
            status, said = await post(gateway, PATHS["openai_chat"], call().body)
            assert (status, b"nested too deeply" in said, gateway.session.failure) == (413, True, None)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        ("openai_chat", b'{"choices": [{"message": {"content": "the "error""}}], "error": null}'),
        ("openai_responses", b'{"error": null, "status": "incomplete", "output": []}'),
        ("anthropic", b'{"type": "message", "content": []}'),
    ],
)
def test_what_may_stand_beside_an_answer(dialect, body):
    assert is_answer(body, dialect)


@pytest.mark.parametrize(
    ("step", "stream"),
    [
        (Raw(b'{"choices": ['), False),
        (Raw(gzip.compress(b'{"choices": []}' * 99)[:40], headers={"content-encoding": "gzip"}), False),
        (Raw(GOOD + b"data: {broken\n\n" + DONE, headers=SSE), True),
        (Raw(GOOD + b"data: <html>\n\n" + DONE, headers=SSE), True),
        (Raw(GOOD, headers=SSE), True),
        (Raw(GOOD + b'data: {"choi', headers=SSE), True),
        (Raw(gzip.compress(GOOD * 50 + DONE)[:70], headers={**SSE, "content-encoding": "gzip"}), True),
    ],
)
def test_half_an_answer_and_a_garbled_one_are_the_providers(tmp_path, step, stream):
    async def scenario() -> None:
        async with gateway_to(tmp_path, step) as (gateway, _):
            await post(gateway, PATHS["openai_chat"], call(stream=stream).body)
            assert gateway.session.broken.is_set()
        (kept,) = gateway.calls
        assert kept.error is not None
        assert (kept.error.kind, kept.error.ended_by) == ("provider", "provider")

    asyncio.run(scenario())


def test_what_cannot_be_read_is_said_in_one_line(tmp_path):
    async def answer_badly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"good morning\r\n\r\n")
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(answer_badly, "127.0.0.1", 0) as server:
            here = {"base_url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}
            bad_gzip = Raw(b"not really", headers={"content-encoding": "gzip"})
            for options in (here, {}):
                async with gateway_to(tmp_path, bad_gzip, upstream=options) as (gateway, _):
                    await post(gateway, PATHS["openai_chat"], call().body)
                    assert "sent an answer that cannot be read: " in str(gateway.session.failure)
                    assert "\n" not in str(gateway.session.failure)

    asyncio.run(scenario())


def test_whoever_hangs_up_over_nonsense_has_not_failed(tmp_path):
    """An SDK that cannot read an event raises, and its agent is gone before the stream has come to its end."""

    async def scenario() -> None:
        pieces = [GOOD, b"data: {nonsense\n\n", *[GOOD] * 100_000]
        async with open_gateway(Pieces(pieces), tmp_path) as gateway:
            async with gateway.plain() as client:
                answer = await client.post(PATHS["openai_chat"], data=call(stream=True).body)
                while b"nonsense" not in await answer.content.readany():
                    pass
                answer.close()
            await gateway.session.broken.wait()
        (kept,) = gateway.calls
        assert kept.error is not None
        assert (kept.error.kind, kept.error.ended_by) == ("provider", "agent")
        assert "nonsense" in kept.error.message

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_keep_alives_are_no_answer_however_many_there_are(tmp_path):
    """Each is a millisecond later than the one before, and more than ten milliseconds are too much."""

    class Clock:
        now = 0.0

        def __call__(self) -> float:
            self.now += 0.001
            return self.now

    async def scenario() -> None:
        limits = Limits(spool=tmp_path, keep_alive_sec=0.01)
        pieces = [GOOD, *[b": still thinking\n\n"] * 50, DONE]
        async with open_gateway(Pieces(pieces), tmp_path, limits=limits) as gateway:
            gateway.session.waits.clock = Clock()
            await post(gateway, PATHS["openai_chat"], call(stream=True).body)
            assert isinstance(gateway.session.failure, ModelSilentError)
        (kept,) = gateway.calls
        assert kept.error is not None
        assert (kept.error.kind, kept.error.ended_by) == ("provider", "us")
        assert "nothing but keep-alives" in kept.error.message

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [True, False])
@given(rest=st.binary(max_size=200), cut=st.integers(0, 200))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_bytes_of_a_provider_make_the_gateway_itself_fail(tmp_path, stream, rest, cut):
    good = GOOD + DONE if stream else b'{"choices":[]}'
    body = good[:cut] + rest
    outcomes: list[Any] = []

    async def scenario() -> None:
        async with open_gateway(Pieces([body]), tmp_path) as gateway:
            await post(gateway, PATHS["openai_chat"], call(stream=stream).body)
            outcomes.append(gateway.session.failure)

    asyncio.run(scenario())
    assert "the gateway itself failed" not in str(outcomes)


@given(st.binary())
def test_the_first_bytes_are_looked_at_without_failing(first):
    for stream in (True, False):
        assert isinstance(could_be_answer(first, stream=stream), bool)


@pytest.mark.parametrize(
    "start", [b"d", b"dat", b"data: {", b": ping", b"\n\n", b"\xef\xbb\xbfdata:", b"event: x", b"id: 1"]
)
def test_the_start_of_a_stream_is_known_by_its_first_byte(start):
    assert could_be_answer(start, stream=True)
