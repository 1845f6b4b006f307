"""HttpProvider against a fake provider over real sockets: what is passed on, and what stays here."""

import asyncio
import tracemalloc

import pytest

from seatrial.errors import UsageError
from seatrial.gateway.api import ModelRequest
from seatrial.gateway.upstreams.passing_on import target_url
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.provider_options import ProviderOptions
from seatrial.model.trace import Dialect
from seatrial.testing.fake_provider import Big, Fail, FakeProvider, Raw, Say
from tests.gateway.upstream_calls import DIALECTS, KEY, ask, call, provider


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_request_goes_out_unchanged_and_the_answer_comes_back_unchanged(dialect: Dialect):
    async def run():
        body = b'{"model": "m",  "unknown": [1.0, 1e3], "n": 12345678901234567890}'
        said = b'{"choices": [{}], "output": [], "content": [], "candidates": [{}],  "whatever": "the provider says"}'
        async with provider(Raw(said)) as (upstream, fake):
            answered = await ask(upstream, call(dialect)._replace(body=body))
            assert (answered.status, answered.body) == (200, said)
            assert (fake.received[0].method, fake.received[0].path) == ("POST", call(dialect).path)
            assert fake.received[0].body == body

    asyncio.run(run())


def test_a_changed_payload_is_sent_when_there_are_no_bytes():
    async def run():
        async with provider() as (upstream, fake):
            await ask(upstream, call(temperature=0.5)._replace(body=b""))
            assert fake.received[0].payload["temperature"] == 0.5
            assert fake.received[0].headers["content-type"] == "application/json"

    asyncio.run(run())


def test_requests_without_a_body_pass_too():
    async def run():
        async with provider() as (upstream, fake):
            answered = await ask(upstream, ModelRequest("/v1/models?limit=3", method="GET"))
            assert answered.json["data"][0]["id"] == "fake"
            assert (fake.received[0].method, fake.received[0].path) == ("GET", "/v1/models?limit=3")
            assert fake.received[0].body == b""

    asyncio.run(run())


def test_the_agents_credentials_are_replaced_and_its_meaningful_headers_kept():
    sent = {
        "Authorization": "Bearer trial-key",
        "X-Api-Key": "trial-key",
        "Cookie": "a=trial-key",
        "Connection": "close, x-secret",
        "X-Forwarded-For": "10.0.0.1",
        "OpenAI-Organization": "org-of-agent",
        "OpenAI-Beta": "assistants=v2",
        "Anthropic-Beta": "tools",
        "User-Agent": "agent/1",
        "X-Stainless-Retry-Count": "1",
    }

    async def run():
        async with provider() as (upstream, fake):
            await ask(upstream, call()._replace(headers=sent))
            await ask(upstream, call("anthropic")._replace(headers={**sent, "anthropic-version": "2024-01-01"}))
            return fake.received

    openai, anthropic = asyncio.run(run())
    assert openai.headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in openai.headers
    assert anthropic.headers["x-api-key"] == KEY
    assert "authorization" not in anthropic.headers
    assert anthropic.headers["anthropic-version"] == "2024-01-01"
    for received in (openai, anthropic):
        assert "trial-key" not in repr(received.headers)
        assert not {"cookie", "x-forwarded-for", "openai-organization"} & received.headers.keys()
        assert received.headers["user-agent"] == "agent/1"
        assert received.headers["openai-beta"] == "assistants=v2"
        assert received.headers["anthropic-beta"] == "tools"
        assert received.headers["x-stainless-retry-count"] == "1"


def test_a_name_that_the_agent_does_not_give_is_not_made_up():
    async def run():
        async with provider() as (upstream, fake):
            await ask(upstream, call())
            await ask(upstream, ModelRequest("/v1/models", "DELETE"))
            return fake.received

    posted, deleted = asyncio.run(run())
    assert "user-agent" not in posted.headers | deleted.headers
    assert (posted.headers["content-type"], deleted.headers.get("content-type")) == ("application/json", None)


@pytest.mark.parametrize(
    ("dialects", "headers", "expected"),
    [
        ({"anthropic"}, {}, "x-api-key"),
        ({"openai_chat"}, {"anthropic-version": "1"}, "authorization"),
        ({"openai_chat", "anthropic"}, {"Anthropic-Version": "1"}, "x-api-key"),
        ({"openai_chat", "anthropic"}, {}, "authorization"),
    ],
)
def test_on_other_paths_the_key_is_shown_as_the_provider_expects(dialects, headers, expected):
    async def run():
        async with provider(dialects=frozenset(dialects)) as (upstream, fake):
            await ask(upstream, ModelRequest("/v1/models", method="GET", headers=headers))
            assert {"authorization", "x-api-key"} & fake.received[0].headers.keys() == {expected}

    asyncio.run(run())


def test_headers_of_the_answer_are_kept_but_for_those_of_the_connection_and_the_account():
    told = {"x-request-id": "r1", "x-ratelimit-remaining-tokens": "7", "openai-organization": "secret-org"}

    async def run():
        async with provider(Say("hi", headers={**told, "set-cookie": "a=b"})) as (upstream, _):
            return (await ask(upstream, call())).headers

    headers = asyncio.run(run())
    assert headers["x-request-id"] == "r1"
    assert headers["x-ratelimit-remaining-tokens"] == "7"
    assert headers["content-type"] == "application/json"
    assert not {"openai-organization", "set-cookie", "content-length", "transfer-encoding"} & headers.keys()


@pytest.mark.parametrize("status", [400, 403, 404, 413, 422])
def test_the_agents_own_mistakes_come_back_as_they_are(status: int):
    async def run():
        async with provider(Fail(status, "no such model", {"x-request-id": "r"})) as (upstream, fake):
            answered = await ask(upstream, call())
            assert answered.status == status
            assert answered.json["error"]["message"] == "no such model"
            assert answered.headers["x-request-id"] == "r"
            assert len(fake.received) == (2 if status == 403 else 1)  # with a plain question beside it

    asyncio.run(run())


def test_the_key_never_comes_back_even_if_the_provider_repeats_it():
    async def run():
        step = Raw(f'{{"error": "you sent {KEY}"}}'.encode(), 400, {"x-echo": f"Bearer {KEY}"})
        async with provider(step) as (upstream, _):
            answered = await ask(upstream, call())
            assert KEY not in repr(answered)
            assert b"you sent" in answered.body

    asyncio.run(run())


@pytest.mark.parametrize(
    "path", ["/v1/../admin", "/v1/%2e%2E/admin", "v1/models", "@evil.example/", "/v1/a b", "/a\r\nx: y"]
)
def test_a_path_that_could_lead_elsewhere_is_the_agents_mistake(path: str):
    async def run():
        async with provider() as (upstream, fake):
            assert (await ask(upstream, ModelRequest(path, method="GET"))).status == 400
            assert not fake.received

    asyncio.run(run())


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("https://h", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/v1", "/chat/completions", "https://h/v1/chat/completions"),
        ("https://h", "/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/api/v1", "/v1/models?a=%20b", "https://h/api/v1/models?a=%20b"),
        ("https://h/v1beta/openai", "/v1/chat/completions", "https://h/v1beta/openai/chat/completions"),
        ("https://h/anthropic", "/v1/messages", "https://h/anthropic/v1/messages"),
        ("https://h/v1", "/v1beta/x", "https://h/v1/v1beta/x"),
        ("https://h", "/v1beta/models/m:generateContent", "https://h/v1beta/models/m:generateContent"),
        ("https://h/v1alpha", "/v1beta/models/m:generateContent", "https://h/v1alpha/models/m:generateContent"),
        ("https://h", "//other.example/x", "https://h//other.example/x"),
    ],
)
def test_addresses(base: str, path: str, expected: str):
    assert str(target_url(base, path)) == expected


def test_malformed_json_is_passed_both_ways():
    async def run():
        async with provider(Raw(b'{"choices": [')) as (upstream, fake):
            answered = await ask(upstream, call()._replace(payload=None, body=b"{not json"))
            assert answered.body == b'{"choices": ['
            assert fake.received[0].body == b"{not json"

    asyncio.run(run())


def test_fifty_megabytes_pass_with_flat_memory():
    size = 50 * 2**20

    async def run():
        async with provider(Big(size)) as (upstream, _):
            tracemalloc.start()
            try:
                total = 0
                async with upstream.ask(call()) as reply:
                    async for chunk in reply.chunks:
                        total += len(chunk)
                return total, tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    total, peak = asyncio.run(run())
    assert total >= size
    assert peak < 4 * 2**20


def test_a_request_of_fifty_megabytes_arrives_whole_even_the_second_time():
    body = b'{"padding":"' + b"x" * (50 * 2**20) + b'"}'

    async def run():
        async with provider(Fail(503)) as (upstream, fake):
            assert (await ask(upstream, call()._replace(body=body))).status == 200
            assert [received.body == body for received in fake.received] == [True, True]

    asyncio.run(run())


def test_two_hundred_at_once_are_all_served_at_once():
    async def run():
        async with FakeProvider(otherwise=Say("hi", late=True)) as fake:
            options = ProviderOptions(base_url=fake.base_url, max_concurrent=200)
            async with HttpProvider(options) as upstream, asyncio.TaskGroup() as group:
                calls = [group.create_task(ask(upstream, call(stream=n % 2 == 0))) for n in range(200)]
                await fake.arrived(200)
                fake.release()
            assert fake.most_in_flight == 200
            return [task.result().status for task in calls]

    assert asyncio.run(run()) == [200] * 200


def test_no_more_than_the_limit_at_once():
    async def run():
        script = [Say(late=True)] * 30
        async with provider(*script, max_concurrent=3) as (upstream, fake), asyncio.TaskGroup() as group:
            for _ in range(30):
                group.create_task(ask(upstream, call()))
            await fake.arrived(3)
            fake.release()
        assert fake.most_in_flight == 3
        assert len(fake.received) == 30

    asyncio.run(run())


def test_one_connection_serves_many_requests():
    async def run():
        async with provider() as (upstream, fake):
            for number in range(6):
                await ask(upstream, call(stream=number % 2 == 0))
            return {received.port for received in fake.received}

    assert len(asyncio.run(run())) == 1


def test_the_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch):
    for name in ("no_proxy", "NO_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)

    async def run():
        async with FakeProvider() as fake:
            monkeypatch.setenv("http_proxy", fake.base_url)
            async with HttpProvider(ProviderOptions(base_url="http://provider.example/v1")) as upstream:
                assert (await ask(upstream, call())).status == 200
            assert fake.received[0].headers["host"] == "provider.example"

    asyncio.run(run())


def test_a_missing_key_is_named():
    options = ProviderOptions(base_url="https://h/v1", api_key_var="MY_KEY")
    for environ in ({}, {"MY_KEY": " "}):
        with pytest.raises(UsageError, match="MY_KEY"):
            HttpProvider(options, environ=environ)


@pytest.mark.parametrize("url", ["h/v1", "ftp://h", "https://", "https://user:pass@h/v1", "https://h/v1?key=1"])
def test_bad_addresses_are_refused(url: str):
    with pytest.raises(ValueError, match="provider"):
        ProviderOptions(base_url=url)
