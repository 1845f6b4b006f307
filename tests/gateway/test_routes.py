"""Which requests may leave: each way of writing a path that strangers think of, as a property and over sockets."""

import asyncio
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.base import CallTally
from seatrial.gateway.routes import NoRoute, Route, error_dialect, find_route, shown
from seatrial.gateway.upstreams.http import target_url
from tests.gateway.gateways import Gateway, gateway_to
from tests.gateway.upstream_calls import PATHS

BASE = "https://provider.example/v1"
LEAVES = re.compile(
    r"/v1/(chat/completions|responses(/input_tokens)?|messages(/count_tokens)?|embeddings|models(/[\w.:@-]+){0,3})"
    r"(\?[\w.:=&-]*)?|/v1(beta|alpha)/models(/[\w.:@-]+){0,3}(\?[\w.:=&-]*)?",
    re.ASCII,
)
PIECES = st.sampled_from(
    [
        *("/", "//", "v1", "chat", "completions", "messages", "models", "responses", "count_tokens", "..", "."),
        *("v1beta", "v1alpha", ":generateContent", ":streamGenerateContent", ":countTokens", "alt=sse", "key=x"),
        *("%2e", "%2f", "%5c", "\\", ";", "#", "?", "&", "=", "beta=true", "@", ":", "http:", "evil.example"),
        *("\x00", "\r\n", " ", "\u00e9"),
    ]
)
TARGETS = st.one_of(st.text(max_size=80), st.lists(PIECES, max_size=12).map("".join))


@given(method=st.sampled_from(["GET", "POST", "DELETE", "CONNECT", "get", ""]), target=TARGETS)
def test_nothing_leaves_but_what_is_known(method, target):
    route = find_route(method, target)
    if isinstance(route, Route):
        assert LEAVES.fullmatch(route.path)
        assert ".." not in route.path
        address = target_url(BASE, route.path)
        assert (address.host, address.raw_path.split("/")[1]) == ("provider.example", "v1"), route.path
        assert find_route(method, route.path) == route
    else:
        assert route.status in {400, 404, 405, 414, 426}
        assert route.reason.isprintable()
    assert error_dialect(target, ()) in PATHS


@given(st.text())
def test_what_strangers_wrote_is_shown_in_short_and_harmless(text):
    assert shown(text).isprintable()
    assert len(shown(text)) < 2500


@pytest.mark.parametrize(
    ("method", "target", "leaves"),
    [
        ("POST", "/v1/chat/completions", "/v1/chat/completions"),
        ("POST", "/chat/completions", "/v1/chat/completions"),
        ("POST", "/v1/messages/?beta=true", "/v1/messages?beta=true"),
        ("POST", "/v1/responses?", "/v1/responses"),
        ("POST", "/v1/responses?api-version=2026-01-01", "/v1/responses?api-version=2026-01-01"),
        ("GET", "/models", "/v1/models"),
        ("POST", "/v1beta/models/m:generateContent?alt=json", "/v1beta/models/m:generateContent"),
        ("POST", "/v1/models/m:streamGenerateContent?alt=sse", "/v1/models/m:streamGenerateContent?alt=sse"),
        ("POST", "/v1beta/models/m:streamGenerateContent", "/v1beta/models/m:streamGenerateContent"),
        ("POST", "/v1beta/models/openai/gpt:8b:countTokens", "/v1beta/models/openai/gpt:8b:countTokens"),
        ("GET", "/v1beta/models?pageSize=5", "/v1beta/models?pageSize=5"),
        ("GET", "/v1beta/models/m", "/v1beta/models/m"),
        ("GET", "/v1/models/ft:gpt:myOrg", "/v1/models/ft:gpt:myOrg"),
        ("GET", "/v1/models?client_version=0.1.0", "/v1/models?client_version=0.1.0"),
        ("GET", "/v1/models/gpt-5", "/v1/models/gpt-5"),
    ],
)
def test_what_agents_call_leaves_in_one_form(method, target, leaves):
    route = find_route(method, target)
    assert isinstance(route, Route)
    assert route.path == leaves


REFUSED = [
    ("POST", "/v1/chat%2fcompletions", 400),
    ("POST", "/v1/chat/%63ompletions", 400),
    ("POST", "/v1/chat%5ccompletions", 400),
    ("POST", "/v1/messages;x=1", 400),
    ("POST", "/v1/models/../chat/completions", 400),
    ("POST", "/v1/./messages", 400),
    ("POST", "//v1//messages", 400),
    ("POST", "//evil.example/v1/messages", 400),
    ("POST", "http://evil.example/v1/messages", 400),
    ("CONNECT", "evil.example:443", 400),
    ("OPTIONS", "*", 400),
    ("POST", "/v1/messages?user=other", 400),
    ("POST", "/v1/messages?beta=%2f", 400),
    ("GET", f"/v1/models/{'x' * 2000}", 414),
    ("POST", f"/v1/messages?beta={'x' * 2000}", 414),
    ("POST", "/v1/completions", 404),
    ("POST", "/v1/files", 404),
    ("POST", "/v1beta/models/m:embedContent", 404),
    ("POST", "/v1beta/models/../files:generateContent", 400),
    ("POST", "/v1beta/models/a%2Fb:generateContent", 400),
    ("POST", "/v1beta/models/m:generateContent?fields=x", 400),
    ("GET", "/v1beta/models/m:generateContent", 405),
    ("GET", "/v1beta/files", 404),
    ("GET", "/v1/responses/resp_1", 404),
    ("GET", "/v1/organization/users", 404),
    ("DELETE", "/v1/models/gpt-5", 404),
    ("GET", "/v1/messages", 405),
    ("PATCH", "/v1/chat/completions", 405),
    ("GET", "/v1/responses", 426),
]


@pytest.mark.parametrize(("method", "target", "status"), REFUSED)
def test_what_is_refused(method, target, status):
    route = find_route(method, target)
    assert isinstance(route, NoRoute)
    assert route.status == status


async def raw(gateway: Gateway, line: str) -> tuple[int, bytes]:
    """Status and body of the answer to a request with exactly this line."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(f"{line} HTTP/1.1\r\nhost: x\r\nx-api-key: {gateway.session.key}\r\n".encode())
    writer.write(b"connection: close\r\ncontent-length: 2\r\n\r\n{}")
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


def test_what_is_refused_is_said_in_the_dialect_and_written_down(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            for method, target, status in REFUSED:
                got, body = await raw(gateway, f"{method} {target}")
                if method == "CONNECT":  # which no server answers that is no proxy
                    continue
                assert got == status, target
                said = orjson.loads(body)
                assert (said.get("type") == "error") == ("/messages" in target), target
                assert ("status" in said["error"]) == ("/v1beta/" in target), target
        assert not fake.received
        kept = {call.path: call for call in gateway.calls}
        for method, target, status in REFUSED:
            if status == 426:  # no refusal, but how one gets there
                assert target not in kept
                continue
            line = kept[shown(target)]
            assert (line.method, line.error and line.error.kind) == (shown(method), "agent")
            assert line.error
            assert line.error.status == status
        assert gateway.session.usage.calls == 0
        assert gateway.session.failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize("target", ["/v1/mess\x01ages", "/v1/messages\x7f", "/v1/messages x", "/v1/m\u00e9ssages"])
def test_what_is_no_http_gets_no_further_than_the_parser(tmp_path, target):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            status, _ = await raw(gateway, f"POST {target}")
        assert status == 400
        assert not fake.received
        assert gateway.session.failure is None

    asyncio.run(scenario())


UPGRADE = b"connection: Upgrade\r\nupgrade: WebSocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: eA==\r\n\r\n"


@pytest.mark.parametrize("target", ["/v1/responses", "/v1/realtime?model=m", "/anything"])
def test_whoever_asks_for_a_websocket_is_told_at_once_to_do_without(tmp_path, target):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
            writer.write(f"GET {target} HTTP/1.1\r\nhost: x\r\n".encode() + UPGRADE)
            head = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
            assert int(head.split()[1]) == 426
            assert gateway.session.tally == CallTally()
        assert (gateway.calls, list(fake.received), gateway.session.failure) == ([], [], None)

    asyncio.run(scenario())


def test_an_upgrade_to_another_http_is_no_reason_to_refuse(tmp_path):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, _), gateway.plain() as client:
            headers = {"upgrade": "h2c", "connection": "Upgrade, HTTP2-Settings", "http2-settings": ""}
            async with client.get("/v1/models", headers=headers) as response:
                assert response.status != 426

    asyncio.run(scenario())
