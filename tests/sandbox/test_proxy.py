"""The forward proxy with real clients and origins on loopback: what gets through, and by whose leave."""

import asyncio
import http.client
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from hashlib import sha256

import pytest

from seatrial.errors import UsageError
from seatrial.sandbox.api import Network
from seatrial.sandbox.hosts import HostPolicy
from seatrial.sandbox.proxy import (
    MAX_ATTEMPTS,
    Attempt,
    Grant,
)
from tests.sandbox.proxying import (
    BYTES,
    LISTED,
    ask,
    authorization,
    connect,
    echo,
    mirror,
    origin,
    request,
    run,
    serving,
    status,
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key and certificate of origin.test, in one file."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=origin.test"
    names = ["-addext", "subjectAltName=DNS:origin.test", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True, timeout=30)
    both = folder / "both.pem"
    both.write_bytes((folder / "certificate.pem").read_bytes() + (folder / "key.pem").read_bytes())
    return both


def test_http_client_gets_a_plain_answer():
    def fetch(proxy_port: int, grant: Grant, port: int) -> tuple[int, str | None, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", proxy_port, timeout=20)
        client.request("GET", f"http://origin.test:{port}/path?query", headers=authorization(grant))
        response = client.getresponse()
        answer = response.status, response.getheader("Connection"), response.read()
        client.close()
        return answer

    async def main():
        async with origin(mirror) as port, serving() as (proxy, proxy_port):
            grant = proxy.grant(LISTED)
            answer = await asyncio.to_thread(fetch, proxy_port, grant, port)
            return port, answer, grant.attempts

    port, (code, connection, body), attempts = run(main())
    assert (code, connection) == (200, "close")
    assert body.startswith(b"GET /path?query HTTP/1.1\r\nHost: origin.test:%d\r\n" % port)
    assert b"proxy" not in body.lower()
    assert attempts == {Attempt("origin.test", port): 1}


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_is_passed_on(framing):
    def post(proxy_port: int, grant: Grant, port: int) -> bytes:
        client = http.client.HTTPConnection("127.0.0.1", proxy_port, timeout=20)
        body = b"0123456789" if framing == "length" else iter([b"01234", b"56789"])
        client.request("POST", f"http://origin.test:{port}/", body, authorization(grant), encode_chunked=True)
        answer = client.getresponse().read()
        client.close()
        return answer

    async def main() -> bytes:
        async with origin(mirror) as port, serving() as (proxy, proxy_port):
            return await asyncio.to_thread(post, proxy_port, proxy.grant(LISTED), port)

    assert run(main()).endswith(b"0123456789" if framing == "length" else b"5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n")


def test_urllib_with_the_environment_of_a_grant():
    def fetch(environment: dict[str, str], url: str) -> bytes:
        proxies = {name.removesuffix("_proxy"): value for name, value in environment.items() if name.islower()}
        with urllib.request.build_opener(urllib.request.ProxyHandler(proxies)).open(url, timeout=20) as response:
            body: bytes = response.read()
            return body

    async def main():
        async with origin(mirror) as port, serving() as (proxy, proxy_port):
            environment = proxy.grant(LISTED).environment(proxy_port)
            assert b"GET /a HTTP/1.1" in await asyncio.to_thread(fetch, environment, f"http://origin.test:{port}/a")
            with pytest.raises(urllib.error.HTTPError, match=r"other\.test:80 is not allowed") as caught:
                await asyncio.to_thread(fetch, environment, "http://other.test/")
            caught.value.close()
            return environment

    environment = run(main())
    assert environment["NO_PROXY"] == environment["no_proxy"] == "localhost,127.0.0.1,::1"
    assert len({environment[name] for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}) == 1


def test_tls_goes_through_a_tunnel(certificate):
    def fetch(proxy_port: int, grant: Grant, port: int) -> bytes:
        context = ssl.create_default_context(cafile=certificate)
        client = http.client.HTTPSConnection("127.0.0.1", proxy_port, timeout=20, context=context)
        client.set_tunnel("origin.test", port, authorization(grant))
        client.request("GET", "/secret")
        body = client.getresponse().read()
        client.close()
        return body

    async def main() -> bytes:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(certificate)
        async with origin(mirror, tls) as port, serving() as (proxy, proxy_port):
            return await asyncio.to_thread(fetch, proxy_port, proxy.grant(LISTED), port)

    assert run(main()).startswith(b"GET /secret HTTP/1.1")


def test_a_tunnel_carries_much_both_ways():
    async def main() -> tuple[int, bytes]:
        async with origin(echo) as port, serving() as (proxy, proxy_port):
            reader, writer = await connect(proxy_port, proxy.grant(LISTED), f"origin.test:{port}")
            writer.write(BYTES)
            writer.write_eof()
            data = await reader.read()
            writer.close()
            return len(data), sha256(data).digest()

    assert run(main()) == (len(BYTES), sha256(BYTES).digest())


def test_only_the_own_credentials_count():
    async def main() -> list[bytes]:
        async with serving() as (proxy, proxy_port):
            one, other = proxy.grant(LISTED), proxy.grant(LISTED)
            mixed = Grant(one.user, other.password, one.policy)
            return [
                await ask(proxy_port, request("CONNECT origin.test:443 HTTP/1.1", grant))
                for grant in (None, mixed, Grant("", "", one.policy), Grant("üser", "ü", one.policy))
            ]

    for answer in run(main()):
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert b"Proxy-Authenticate: Basic" in answer


def test_a_revoked_grant_loses_its_connections_and_no_others():
    async def main() -> None:
        async with origin(echo) as port, serving() as (proxy, proxy_port):
            one, other = proxy.grant(LISTED), proxy.grant(LISTED)
            reader, writer = await connect(proxy_port, one, f"origin.test:{port}")
            kept_reader, kept_writer = await connect(proxy_port, other, f"origin.test:{port}")
            await proxy.revoke(one)
            await proxy.revoke(one)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            assert status(await ask(proxy_port, request("CONNECT origin.test:1 HTTP/1.1", one))) == 407
            assert one.attempts == {Attempt("origin.test", port): 1}
            kept_writer.write(b"still here")
            assert await kept_reader.readexactly(10) == b"still here"
            kept_writer.close()

    run(main())


def test_a_grant_is_for_modes_with_a_proxy_and_valid_patterns():
    async def main() -> None:
        async with serving() as (proxy, _):
            for mode in ("none", "host"):
                with pytest.raises(UsageError, match=f'network mode "{mode}" has no use for a proxy'):
                    proxy.grant(Network(mode))
            with pytest.raises(UsageError, match="https://origin"):
                proxy.grant(Network("allowlist", ("https://origin.test",)))
            grant = proxy.grant(LISTED)
            assert grant.password not in repr(grant)

    run(main())


def test_attempts_are_counted_and_bounded():
    grant = Grant("user", "password", HostPolicy("public"))
    for port in [*range(MAX_ATTEMPTS + 50), 7, 7]:
        grant.note(Attempt("origin.test", port))
    assert len(grant.attempts) == MAX_ATTEMPTS
    assert (grant.attempts[Attempt("origin.test", 7)], grant.attempts[Attempt("origin.test", 8)]) == (3, 1)
