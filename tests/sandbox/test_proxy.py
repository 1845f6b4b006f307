"""The forward proxy with real clients and origins on loopback: what gets through, and by whose leave."""

import asyncio
import gc
import http.client
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import suppress
from hashlib import sha256
from ipaddress import ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.errors import UsageError
from seatrial.sandbox.api import Network
from seatrial.sandbox.hosts import HostPolicy
from seatrial.sandbox.proxy import MAX_ATTEMPTS, Attempt, EgressProxy, ForwardProxy, Grant, ProxyOptions, is_own_address
from tests.sandbox.proxying import (
    BYTES,
    HERE,
    LISTED,
    ScriptedResolver,
    ask,
    authorization,
    connect,
    echo,
    mirror,
    origin,
    pieces,
    request,
    run,
    serving,
    silent,
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


ALLOWED = Network("allowlist", ("127.0.0.0/8",))


async def listen():
    return socket.create_server(("127.0.0.1", 0))


def fetch(url, environment):
    handler = urllib.request.ProxyHandler({"http": environment["HTTP_PROXY"]} if environment else {})
    return urllib.request.build_opener(handler).open(url, timeout=10).status


async def answering(reader, writer):
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.parametrize("mode", ["none", "host"])
def test_without_a_proxy_there_is_nothing_to_start(mode):
    async def scenario():
        outbound = EgressProxy(lambda: pytest.fail("nobody should listen"))
        async with outbound.access(Network(mode)) as environment:
            assert environment == {}
        await outbound.close()

    asyncio.run(scenario())


def test_access_ends_with_the_command():
    async def scenario():
        outbound = EgressProxy(listen)
        async with await asyncio.start_server(answering, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            async with outbound.access(ALLOWED) as first:
                assert await asyncio.to_thread(fetch, url, first) == 200
            async with outbound.access(ALLOWED) as second:
                assert first != second
                assert await asyncio.to_thread(fetch, url, second) == 200
                with pytest.raises(urllib.error.HTTPError) as refused:
                    await asyncio.to_thread(fetch, url, first)
                assert refused.value.code == 407
                refused.value.close()
        await outbound.close()

    asyncio.run(scenario())


def test_a_bad_pattern_is_the_caller_s_mistake_and_harms_no_other_command():
    async def scenario():
        outbound = EgressProxy(listen)
        with pytest.raises(UsageError):
            async with outbound.access(Network("allowlist", ("not a host",))):
                pytest.fail("should not be entered")
        async with outbound.access(ALLOWED) as environment:
            assert environment
        await outbound.close()

    asyncio.run(scenario())


def test_whoever_is_cancelled_while_the_proxy_starts_harms_no_other_command():
    async def scenario():
        problems = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        starting = asyncio.Event()

        async def listen_at_last():
            starting.set()
            return await listen()

        async def command():
            async with outbound.access(ALLOWED):
                pass

        outbound = EgressProxy(listen_at_last)
        task = asyncio.create_task(command())
        await starting.wait()
        task.cancel()
        await asyncio.wait({task})
        async with outbound.access(ALLOWED) as environment:
            assert environment
        await outbound.close()
        gc.collect()
        assert not problems

    asyncio.run(scenario())


def test_nothing_is_left_after_closing():
    async def scenario():
        outbound = EgressProxy(listen)
        async with outbound.access(ALLOWED):
            pass
        await outbound.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_slow_client_is_served():
    async def main() -> bytes:
        async with origin(mirror) as port, serving() as (proxy, proxy_port):
            reader, writer = await asyncio.open_connection("127.0.0.1", proxy_port)
            for byte in request(f"GET http://origin.test:{port}/ HTTP/1.1", proxy.grant(LISTED)):
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            answer = await reader.read()
            writer.close()
            return answer

    assert status(run(main())) == 200


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"GET http://origin.test/ HTTP/1.1\r\n", 408), (b"x" * 2**20, 431), (b"\r\n\r\n" + b"garbage" * 10**5, 400)],
)
def test_a_client_that_never_makes_sense_still_gets_an_answer(data, code):
    async def main() -> bytes:
        async with serving(options=ProxyOptions(head_timeout_sec=0.2)) as (_, proxy_port):
            return await ask(proxy_port, data)

    assert status(run(main())) == code


def test_the_connections_of_a_grant_are_limited():
    async def main() -> list[bytes]:
        async with origin(echo) as port, serving(options=ProxyOptions(max_connections=1)) as (proxy, proxy_port):
            one, other = proxy.grant(LISTED), proxy.grant(LISTED)
            _, writer = await connect(proxy_port, one, f"origin.test:{port}")
            answers = [await ask(proxy_port, request("CONNECT x.test:1 HTTP/1.1", grant)) for grant in (one, other)]
            writer.close()
            return answers

    assert [status(answer) for answer in run(main())] == [503, 403]


def test_connections_without_credentials_are_limited():
    async def main() -> bytes:
        async with serving(options=ProxyOptions(max_unknown=1)) as (proxy, proxy_port):
            _, idle = await asyncio.open_connection("127.0.0.1", proxy_port)
            answer = await ask(proxy_port, request("CONNECT x.test:1 HTTP/1.1", proxy.grant(LISTED)))
            idle.close()
            return answer

    assert run(main()) == b""


def test_a_sandbox_cannot_take_the_descriptors_of_others(monkeypatch):
    monkeypatch.setattr("resource.getrlimit", lambda _: (8, 8))

    async def main() -> list[bytes]:
        async with origin(echo) as port, serving() as (proxy, proxy_port):
            grant = proxy.grant(LISTED)
            tunnels = [await connect(proxy_port, grant, f"origin.test:{port}") for _ in range(8)]
            refused = await ask(proxy_port, request("CONNECT x.test:1 HTTP/1.1", grant))
            for _, writer in tunnels:
                writer.close()
            return [refused]

    assert run(main()) == [b""]


@pytest.mark.parametrize("ending", ["leave", "cancel", "error"])
def test_nothing_outlives_the_block(ending):
    async def main() -> None:
        resolver = ScriptedResolver(origin_test=[HERE], slow_test=[None])
        network = Network("allowlist", (*LISTED.hosts, "slow.test"))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            clients = []
            with suppress(asyncio.CancelledError, ZeroDivisionError):
                async with serving(resolver) as (proxy, proxy_port):
                    grant = proxy.grant(network)
                    clients.append(await connect(proxy_port, grant, f"origin.test:{listener.getsockname()[1]}"))
                    for data in (b"", b"GET ", request("CONNECT slow.test:1 HTTP/1.1", grant)):
                        clients.append(await asyncio.open_connection("127.0.0.1", proxy_port))
                        clients[-1][1].write(data)
                    # Answered after all before it were accepted.
                    assert status(await ask(proxy_port, b"\r\n\r\n")) == 400
                    end(ending)
                    await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}
            for reader, writer in clients:
                with pytest.raises(ConnectionResetError):
                    await reader.read()
                writer.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", proxy_port)

    def end(how: str) -> None:
        if how == "error":
            raise ZeroDivisionError
        task = asyncio.current_task()
        if how == "cancel" and task:
            task.cancel()

    run(main())


def test_a_failure_of_the_proxy_itself_is_raised():
    async def main() -> None:
        async with serving(ScriptedResolver()) as (proxy, proxy_port):
            await ask(proxy_port, request("CONNECT origin.test:1 HTTP/1.1", proxy.grant(LISTED)))
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        run(main())
    assert caught.group_contains(KeyError)


@pytest.mark.whole
@given(st.lists(pieces | st.binary(max_size=20), max_size=16))
@settings(max_examples=30)
def test_any_bytes_get_a_refusal_or_a_close(parts):
    async def main() -> bytes:
        async with serving() as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist"))
            token = b64encode(f"{grant.user}:{grant.password}".encode())
            return await ask(proxy_port, b"".join(parts).replace(b"TOKEN", token), end=True)

    answer = run(main())
    assert answer == b"" or status(answer) in {400, 403, 407}


def test_an_unlisted_name_is_refused_without_a_lookup():
    async def main():
        resolver = ScriptedResolver()
        async with serving(resolver) as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist", ("*.origin.test:443", "127.0.0.0/8")))
            targets = ["origin.test:443", "a.origin.test:80", "evil.test:443", "[2001:db8::1]:443", "0.0.0.0:80"]
            answers = [await ask(proxy_port, request(f"CONNECT {target} HTTP/1.1", grant)) for target in targets]
            return resolver.asked, targets, answers, grant.attempts

    asked, targets, answers, attempts = run(main())
    assert asked == []
    reasons = [f"{target} is not allowed; allowed: *.origin.test:443, 127.0.0.0/8" for target in targets]
    assert [answer.partition(b"\r\n\r\n")[2].decode() for answer in answers] == [f"{reason}\n" for reason in reasons]
    assert {status(answer) for answer in answers} == {403}
    assert [attempt.refusal for attempt in attempts] == reasons


def test_a_name_is_looked_up_once_and_its_address_checked():
    async def main():
        resolver = ScriptedResolver(origin_test=[HERE, ["127.0.0.2", "169.254.169.254"]])
        async with origin(mirror) as port, serving(resolver) as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist", ("origin.test", "127.0.0.1")))
            ask_again = request(f"GET http://origin.test:{port}/ HTTP/1.1", grant)
            return [await ask(proxy_port, ask_again), await ask(proxy_port, ask_again)], resolver.asked

    (first, second), asked = run(main())
    assert (status(first), status(second)) == (200, 403)
    assert b"127.0.0.2 is a loopback address; 169.254.169.254 is a link-local address" in second
    assert asked == ["origin.test"] * 2


def test_allowed_addresses_are_tried_in_order():
    async def main():
        resolver = ScriptedResolver(origin_test=[["::1", "127.0.0.9", "::ffff:127.0.0.1"]])
        async with origin(mirror) as port, serving(resolver) as (proxy, proxy_port):
            return await ask(proxy_port, request(f"GET http://origin.test:{port}/ HTTP/1.1", proxy.grant(LISTED)))

    assert status(run(main())) == 200


def test_public_reaches_any_name_but_no_special_address():
    async def main():
        resolver = ScriptedResolver(one_test=[HERE], two_test=[["10.0.0.1"]])
        async with origin(mirror) as port, serving(resolver) as (proxy, proxy_port):
            public, opened = proxy.grant(Network("public")), proxy.grant(Network("public", ("127.0.0.0/8",)))
            hosts = [("one.test", public), ("two.test", public), ("127.0.0.1", public), ("one.test", opened)]
            return [
                await ask(proxy_port, request(f"GET http://{host}:{port}/ HTTP/1.1", grant)) for host, grant in hosts
            ]

    answers = run(main())
    assert [status(answer) for answer in answers] == [403, 403, 403, 200]
    assert b"is not allowed: 127.0.0.1 is a loopback address" in answers[0]
    assert b"is not allowed: 10.0.0.1 is a private address" in answers[1]


def test_other_addresses_of_this_machine_are_closed_too():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no other address")
        own = probe.getsockname()[0]

    async def main() -> bytes:
        async with serving(ScriptedResolver(origin_test=[[own]])) as (proxy, proxy_port):
            grant = proxy.grant(Network("allowlist", ("origin.test", f"{own.split('.')[0]}.0.0.0/8")))
            return await ask(proxy_port, request("GET http://origin.test/ HTTP/1.1", grant))

    answer = run(main())
    assert status(answer) == 403
    assert b"is an address of the machine" in answer


def test_own_addresses_are_known():
    assert is_own_address(ip_address("127.0.0.1"))
    assert not is_own_address(ip_address("192.0.2.1"))


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        (HERE, 502, b"127.0.0.1: Connect call failed"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), 502, b"Name or service not known"),
        ([], 502, b"it has no address"),
        (None, 504, b"looking up origin.test took too long"),
    ],
)
def test_what_cannot_be_reached(line, code, reason):
    async def main() -> bytes:
        options = ProxyOptions(connect_timeout_sec=0.2)
        with socket.socket() as bound:
            # Bound but not listening: nobody else can take the port.
            bound.bind(("127.0.0.1", 0))
            target = f"origin.test:{bound.getsockname()[1]}"
            async with serving(ScriptedResolver(origin_test=[line]), options) as (proxy, proxy_port):
                return await ask(proxy_port, request(f"CONNECT {target} HTTP/1.1", proxy.grant(LISTED)))

    answer = run(main())
    assert status(answer) == code
    assert reason in answer


def test_an_address_that_does_not_answer_takes_its_share_of_the_time():
    async def main() -> list[bytes]:
        resolver = ScriptedResolver(origin_test=[["127.0.0.2", "127.0.0.3"], ["127.0.0.2", "127.0.0.1"]])
        async with (
            origin(mirror) as port,
            serving(resolver, ProxyOptions(connect_timeout_sec=0.4)) as (proxy, proxy_port),
        ):
            with silent("127.0.0.2", port), silent("127.0.0.3", port):
                message = request(f"GET http://origin.test:{port}/ HTTP/1.1", proxy.grant(LISTED))
                return [await ask(proxy_port, message) for _ in range(2)]

    never, late = run(main())
    assert status(never) == 504
    assert b"127.0.0.2 took too long; 127.0.0.3 took too long" in never
    assert status(late) == 200


def test_the_system_knows_localhost():
    async def main() -> bytes:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with origin(mirror) as port, ForwardProxy([listener.dup()]) as proxy:
                grant = proxy.grant(Network("allowlist", ("localhost", "127.0.0.0/8", "::1")))
                message = request(f"GET http://localhost:{port}/ HTTP/1.1", grant)
                return await ask(listener.getsockname()[1], message)

    assert status(run(main())) == 200
