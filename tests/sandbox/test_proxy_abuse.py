"""The forward proxy with clients that are slow, senseless or too many, and at its own end: nothing is left behind."""

import asyncio
import socket
from base64 import b64encode
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seatrial.sandbox.api import Network
from seatrial.sandbox.proxy import (
    ProxyOptions,
)
from tests.sandbox.proxying import (
    HERE,
    LISTED,
    ScriptedResolver,
    ask,
    connect,
    echo,
    mirror,
    origin,
    pieces,
    request,
    run,
    serving,
    status,
)


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
