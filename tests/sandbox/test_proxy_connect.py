"""The way out through the proxy that this machine uses: who goes there, with which words, and what comes of it."""

import asyncio
from ipaddress import ip_address

import pytest

from seatrial.sandbox.api import Network
from seatrial.sandbox.proxy import ParentProxy
from seatrial.sandbox.proxy_http import Refusal
from tests.sandbox.proxying import Handler, ScriptedResolver, origin, serving


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_which_hosts_it_is_for(monkeypatch):
    assert ParentProxy.for_host("example.org") is None
    monkeypatch.setenv("HTTPS_PROXY", "http://me:s%40t@proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "inside.test,.corp")
    found = ParentProxy.for_host("example.org")
    assert found == ParentProxy("proxy.test", 3128, "Basic bWU6c0B0")
    assert "bWU6" not in f"{found} {found!r}"
    for host in ("inside.test", "a.corp", "localhost", "x.localhost", ip_address("192.0.2.7")):
        assert ParentProxy.for_host(host) is None


def test_one_that_speaks_something_else_is_refused():
    with pytest.raises(Refusal, match="no http:// address"):
        ParentProxy.parse("socks5://x:1")
    assert ParentProxy.parse("proxy.test:8080") == ParentProxy("proxy.test", 8080)


def parent(answer: bytes, heads: list[bytes]) -> Handler:
    """A proxy that notes what it is asked for, answers, and says `hello` in place of the origin."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if b" 200 " in answer:
            writer.write(b"hello")
        await writer.drain()

    return handle


def ask(answer: bytes, monkeypatch: pytest.MonkeyPatch, network: Network, host: str) -> tuple[bytes, list[bytes]]:
    """What a command gets that asks our proxy for a tunnel, and what the other proxy was asked for."""
    heads: list[bytes] = []

    async def play() -> bytes:
        async with origin(parent(answer, heads)) as port, serving(RESOLVER) as (proxy, own):
            monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@127.0.0.1:{port}")
            grant = proxy.grant(network)
            reader, writer = await asyncio.open_connection("127.0.0.1", own)
            login = ParentProxy.parse(f"http://{grant.user}:{grant.password}@x").authorization
            writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\nProxy-Authorization: {login}\r\n\r\n".encode())
            async with asyncio.timeout(20):
                got = await reader.read()
            writer.close()
            return got

    return asyncio.run(play()), heads


RESOLVER = ScriptedResolver(localhost=[["127.0.0.1"]], nowhere_test=[["127.0.0.1"]])
PUBLIC = Network("public", proxy="host")
OK = b"HTTP/1.1 200 Connection established\r\n\r\n"


def test_a_tunnel_leads_through_it_with_its_password_and_without_ours(monkeypatch):
    got, heads = ask(OK, monkeypatch, PUBLIC, "nowhere.test")
    assert got.endswith(b"\r\n\r\nhello")
    (head,) = heads
    assert head.startswith(b"CONNECT nowhere.test:443 HTTP/1.1\r\nHost: nowhere.test:443\r\n")
    assert head.endswith(b"Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\n")


def test_its_refusal_is_passed_on_with_its_name(monkeypatch):
    got, _ = ask(b"HTTP/1.1 403 Forbidden\r\n\r\n", monkeypatch, PUBLIC, "nowhere.test")
    assert got.startswith(b"HTTP/1.1 502 ")
    assert b"answered 403 Forbidden" in got
    assert b"secret" not in got


@pytest.mark.parametrize(
    ("network", "host"),
    [
        (Network("allowlist", ("example.org",), "host"), "nowhere.test"),
        (PUBLIC, "127.0.0.1"),
        (PUBLIC, "localhost"),
        (Network("public"), "nowhere.test"),
    ],
    ids=["not listed", "own address", "own name", "not asked for"],
)
def test_what_may_not_be_reached_does_not_get_there(monkeypatch, network, host):
    got, heads = ask(OK, monkeypatch, network, host)
    assert got.split(b" ")[1] in (b"403", b"502")
    assert heads == []
