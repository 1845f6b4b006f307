"""Heads as they are read and passed on; bodies and tunnels over real connections between four sockets."""

import asyncio
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from ipaddress import IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.sandbox.proxy_http import (
    MAX_HEAD,
    Peer,
    Refusal,
    RequestHead,
    close,
    dismiss,
    parse_request,
    parse_response,
    read_head,
    relay,
    reset,
    tunnel,
)

Respond = Callable[[Peer], Coroutine[None, None, bytes | None]]

END = b"\r\n\r\n"
GET = b"GET http://origin.test/a?b HTTP/1.1\r\n"


async def read_from(data: bytes) -> RequestHead | None:
    reader = asyncio.StreamReader(limit=MAX_HEAD)
    reader.feed_data(data)
    reader.feed_eof()
    return await read_head(reader)


async def rest_of(peer: Peer) -> bytes | None:
    """All that still comes, or None when the connection is reset."""
    try:
        return await peer.reader.read()
    except ConnectionResetError:
        return None


async def connection() -> tuple[Peer, Peer]:
    """The two ends of a TCP connection on loopback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        other, _ = listener.accept()
    ends = [Peer(*await asyncio.open_connection(sock=end, limit=MAX_HEAD)) for end in (one, other)]
    return ends[0], ends[1]


@asynccontextmanager
async def four_ends() -> AsyncIterator[tuple[Peer, Peer, Peer, Peer]]:
    """The client, what the proxy has of it, what the proxy has of the origin, and the origin."""
    client, accepted = await connection()
    connected, origin = await connection()
    try:
        yield client, accepted, connected, origin
    finally:
        for peer in (client, accepted, connected, origin):
            reset(peer.writer)


def run_relay(request: bytes, respond: Respond) -> tuple[bytes | None, bytes | None]:
    """Pass a request, and whatever follows it, on; returns what the origin and what the client got."""

    async def main() -> tuple[bytes | None, bytes | None]:
        async with asyncio.timeout(20), four_ends() as (client, accepted, connected, origin):
            client.writer.write(request)
            client.writer.write_eof()
            head = await read_head(accepted.reader)
            assert head is not None
            async with asyncio.TaskGroup() as group:
                got, answer = group.create_task(respond(origin)), group.create_task(rest_of(client))
                try:
                    await relay(accepted, connected, head)
                except Refusal as refusal:
                    accepted.writer.write(refusal.render())
                except OSError:
                    reset(accepted.writer)
                reset(connected.writer)
                await dismiss(accepted, 5)
            return got.result(), answer.result()

    return asyncio.run(main())


def answering(response: bytes, *, after: bytes = END) -> Respond:
    """An origin that reads up to certain bytes, answers, and closes."""

    async def respond(origin: Peer) -> bytes:
        got = await origin.reader.readuntil(after)
        origin.writer.write(response)
        await close(origin.writer)
        return got

    return respond


def test_a_request_is_read():
    token = b64encode(b"me:se:cret")
    head = parse_request(GET + b"Proxy-Authorization: bAsIc " + token + b"\r\nContent-Length: 12" + END)
    assert (head.method, head.host, head.port, head.target) == ("GET", "origin.test", 80, "/a?b")
    assert head.body == 12
    assert head.credentials == ("me", "se:cret")
    tunnelled = parse_request(b"CONNECT [2001:DB8::7]:443 HTTP/1.0" + END)
    assert (tunnelled.host, tunnelled.port, tunnelled.target) == (IPv6Address("2001:db8::7"), 443, "")
    assert tunnelled.authority == "[2001:db8::7]:443"


@pytest.mark.parametrize("value", [b"", b"Basic", b"Basic !!!!", b"Basic /////w==", b"Bearer bWU6cHc="])
def test_unusable_credentials_are_none(value):
    assert parse_request(GET + b"Proxy-Authorization: " + value + END).credentials == ("", "")


def test_what_the_origin_gets():
    head = parse_request(
        b"PUT HTTP://Origin.test.:8080?q HTTP/1.1\r\nHost: evil.test\r\nHOST: other.test\r\nAccept: \xe9 \r\n"
        b"Proxy-Authorization: Basic bWU6cHc=\r\nProxy-Connection: keep-alive\r\nConnection: X-One, content-length\r\n"
        b"X-One: 1\r\nKeep-Alive: 5\r\nUpgrade: h2c\r\nTE: trailers\r\nExpect: 100-continue\r\nContent-Length: 3" + END
    )
    assert head.render() == (
        b"PUT /?q HTTP/1.1\r\nHost: origin.test:8080\r\nAccept: \xe9\r\nExpect: 100-continue\r\nContent-Length: 3\r\n"
        b"Connection: close" + END
    )


@pytest.mark.parametrize(
    "head",
    [
        *(b"", b"GET", b"GET  http://a/ HTTP/1.1", b"GET http://a/ HTTP/2", b"GET http://a/ HTTP/1.1 "),
        *(b"G\xe9T http://a/ HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET http://a/\xff HTTP/1.1"),
        *(b"GET %s HTTP/1.1" % target for target in [b"/", b"https://a/", b"ftp://a/", b"http:///", b"http://a/#f"]),
        *(b"GET http://%s/ HTTP/1.1" % host for host in [b"u:p@a", b"a:0", b"127.1", b"\xff", b"::1", b"a..b"]),
        *(b"CONNECT %s HTTP/1.1" % target for target in [b"a", b"http://a:1", b"a:99999", b"/", b"a:1/"]),
        *(GET + line for line in [b"X", b"X : 1", b" X: 1", b"X: 1\r\n folded", b": 1", b"X: a\nY: b", b"X: \x00"]),
        *(GET + b"Content-Length: " + value for value in [b"", b"-1", b"0x1", b"1\r\nContent-Length: 1", b"1, 1"]),
        *(GET + b"Transfer-Encoding: " + value for value in [b"", b"gzip", b"chunked\r\nContent-Length: 1"]),
        *(GET + b"Transfer-Encoding: " + value for value in [b"gzip, chunked", b"chunked\r\nTransfer-Encoding: x"]),
        b"POST http://a/ HTTP/1.0\r\nTransfer-Encoding: chunked",
    ],
)
def test_what_could_be_misread_is_refused(head):
    with pytest.raises(Refusal) as refusal:
        parse_request(head + END)
    assert refusal.value.status == 400


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: GET + tail + END))
def test_any_bytes_are_a_request_or_a_refusal(data):
    try:
        head = asyncio.run(read_from(data))
    except Refusal as refusal:
        assert refusal.render().startswith(b"HTTP/1.1 400 Bad Request: ")
        assert refusal.render().count(b"\n") == 6
    else:
        assert data == b"" if head is None else head.render().count(END) == 1


@given(st.binary(max_size=60), st.sampled_from(["GET", "HEAD"]))
def test_any_bytes_are_a_response_or_a_refusal(data, method):
    try:
        head = parse_response(b"HTTP/1.1 200 OK\r\n" + data + END, method)
    except Refusal:
        return
    assert head.render().endswith(b"\r\nConnection: close" + END)


def test_a_head_that_is_too_large_or_cut_off():
    async def status_of(data: bytes) -> int:
        with pytest.raises(Refusal) as refusal:
            await read_from(data)
        return refusal.value.status

    assert asyncio.run(status_of(GET + b"X: " + b"x" * MAX_HEAD + END)) == 431
    assert asyncio.run(status_of(b"x" * (MAX_HEAD + 4))) == 431
    assert asyncio.run(status_of(GET)) == 400


def test_a_refusal_is_one_line_whatever_it_says():
    answer = Refusal(407, "a\r\nSet-Cookie: b\n ü" + "x" * 5000).render()
    head, _, body = answer.partition(END)
    assert head.split(b"\r\n")[0].startswith(b"HTTP/1.1 407 Proxy Authentication Required: a Set-Cookie: b \\xfcx")
    assert b'Proxy-Authenticate: Basic realm="seatrial"' in head
    assert b"Content-Length: %d" % len(body) in head
    assert body.count(b"\n") == 1


@pytest.mark.parametrize(
    ("method", "head", "framing"),
    [
        ("GET", b"200 OK", "until-close"),
        ("GET", b"200", "until-close"),
        ("GET", b"200 OK\r\nContent-Length: 5", 5),
        ("GET", b"200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: gzip, Chunked", "chunked"),
        ("GET", b"200 OK\r\nTransfer-Encoding: gzip", "until-close"),
        ("HEAD", b"200 OK\r\nContent-Length: 5", 0),
        ("GET", b"304 Not Modified\r\nContent-Length: 5", 0),
        ("GET", b"204 No Content", 0),
        ("GET", b"100 Continue", 0),
    ],
)
def test_where_a_response_ends(method, head, framing):
    response = parse_response(b"HTTP/1.1 " + head + END, method)
    assert response.body == framing
    assert (b"Connection: close" in response.render()) == (response.status >= 200)
    assert not (framing == "chunked" and b"Content-Length" in response.render())


def test_only_the_request_is_passed_on():
    garbage = b"GET http://evil.test/ HTTP/1.1\r\n\r\n\x00\xff"
    response = b"HTTP/1.1 200 OK\r\nKeep-Alive: 9" + END + b"hello"
    request = GET + b"Content-Length: 4" + END + b"body"
    got, answer = run_relay(request + garbage, answering(response, after=b"body"))
    assert got == b"GET /a?b HTTP/1.1\r\nHost: origin.test\r\nContent-Length: 4\r\nConnection: close" + END + b"body"
    assert answer == b"HTTP/1.1 200 OK\r\nConnection: close" + END + b"hello"


def test_chunks_are_passed_on_both_ways():
    chunks = b"5;name=value\r\nhello\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
    plain = b"5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n"
    coded = b"Transfer-Encoding: chunked\r\n"
    response = b"HTTP/1.1 200 OK\r\n" + coded + b"\r\n" + chunks
    got, answer = run_relay(GET + coded + b"\r\n" + chunks + b"garbage", answering(response, after=plain))
    assert got is not None
    assert got.endswith(coded + b"Connection: close" + END + plain)
    assert answer == b"HTTP/1.1 200 OK\r\n" + coded + b"Connection: close" + END + plain


@pytest.mark.parametrize(
    "chunks",
    [b"x\r\n", b"-1\r\n", b"2\r\nabc\r\n", b"2\r\nab", b"f" * 16 + b"\r\n", b"1;" + b"x" * 2 * MAX_HEAD, b""],
)
def test_a_malformed_body_resets_both_connections(chunks):
    assert run_relay(GET + b"Transfer-Encoding: chunked" + END + chunks, rest_of) == (None, None)


def test_a_body_that_ends_early_resets_both_connections():
    assert run_relay(GET + b"Content-Length: 9" + END + b"body", rest_of) == (None, None)


@pytest.mark.parametrize(
    "response", [b"Content-Length: 9\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]
)
def test_a_response_that_ends_early_does_not_look_complete(response):
    assert run_relay(GET + b"\r\n", answering(b"HTTP/1.1 200 OK\r\n" + response))[1] is None


@pytest.mark.parametrize(
    "response",
    [
        *(b"", b"HTTP/1.1", b"220 ftp.example ready\r\n\r\n", b"HTTP/1.1 200 OK\nX: y\n\n"),
        *(b"HTTP/1.1 200 OK\r\nX\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2 * MAX_HEAD,
    ],
)
def test_an_unusable_response_is_a_bad_gateway(response):
    _, answer = run_relay(GET + b"\r\n", answering(response))
    assert answer is not None
    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway: origin.test:80 gave no usable answer")


def test_an_origin_may_answer_before_it_has_read_everything():
    async def respond(origin: Peer) -> bytes | None:
        head = await origin.reader.readuntil(END)
        origin.writer.write(b"HTTP/1.1 413 Too much\r\nContent-Length: 0" + END)
        await rest_of(origin)
        return head

    _, answer = run_relay(GET + b"Content-Length: 9000000" + END + bytes(9_000_000), respond)
    assert answer == b"HTTP/1.1 413 Too much\r\nContent-Length: 0\r\nConnection: close" + END


def test_an_interim_answer_comes_before_the_body():
    async def main() -> bytes | None:
        async with asyncio.timeout(20), four_ends() as (client, accepted, connected, origin):
            client.writer.write(GET + b"Expect: 100-continue\r\nContent-Length: 4" + END)
            head = await read_head(accepted.reader)
            assert head is not None
            async with asyncio.TaskGroup() as group:
                group.create_task(relay(accepted, connected, head))
                assert b"Expect: 100-continue" in await origin.reader.readuntil(END)
                origin.writer.write(b"HTTP/1.1 100 Continue" + END)
                assert await client.reader.readuntil(END) == b"HTTP/1.1 100 Continue" + END
                client.writer.write(b"body")
                assert await origin.reader.readexactly(4) == b"body"
                origin.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0" + END)
            await close(accepted.writer)
            return await rest_of(client)

    assert asyncio.run(main()) == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close" + END


@pytest.mark.parametrize("first", ["client", "origin"])
def test_a_tunnel_lets_either_side_end_first(first):
    async def main() -> list[bytes | None]:
        async with asyncio.timeout(20), four_ends() as (client, accepted, connected, origin):
            one, other = (client, origin) if first == "client" else (origin, client)
            async with asyncio.TaskGroup() as group:
                group.create_task(tunnel(accepted, connected))
                await client.reader.readuntil(END)
                one.writer.write(b"question")
                one.writer.write_eof()
                question = await rest_of(other)
                other.writer.write(b"answer")
                other.writer.write_eof()
                answer = await rest_of(one)
            return [question, answer]

    assert asyncio.run(main()) == [b"question", b"answer"]


@pytest.mark.parametrize("broken", ["client", "origin"])
def test_a_reset_goes_through_a_tunnel(broken):
    async def main() -> bytes | None:
        async with asyncio.timeout(20), four_ends() as (client, accepted, connected, origin):
            one, other = (client, origin) if broken == "client" else (origin, client)
            reset(one.writer)
            with pytest.raises(ConnectionResetError):
                await tunnel(accepted, connected)
            for peer in (accepted, connected):
                reset(peer.writer)
            return await rest_of(other)

    assert asyncio.run(main()) is None


def test_a_slow_reader_slows_the_sender():
    """What waits in the middle is bounded: the sender stands still long before it has sent everything."""

    async def main() -> int:
        async with four_ends() as (client, accepted, connected, origin), asyncio.TaskGroup() as group:
            passing = group.create_task(tunnel(accepted, connected))
            sent = 0
            try:
                while True:
                    origin.writer.write(bytes(2**20))
                    async with asyncio.timeout(1):
                        await origin.writer.drain()
                    sent += 2**20
                    assert sent < 64 * 2**20, client
            except TimeoutError:
                passing.cancel()
            return sent

    assert asyncio.run(main()) > 0
