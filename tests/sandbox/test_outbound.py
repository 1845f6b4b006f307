"""Access to the network is lent to one command at a time and ends with it."""

import asyncio
import socket
import urllib.error
import urllib.request

import pytest

from seatrial.errors import UsageError
from seatrial.sandbox.api import Network
from seatrial.sandbox.outbound import Outbound

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
        outbound = Outbound(lambda: pytest.fail("nobody should listen"))
        async with outbound.access(Network(mode)) as environment:
            assert environment == {}
        await outbound.close()

    asyncio.run(scenario())


def test_access_ends_with_the_command():
    async def scenario():
        outbound = Outbound(listen)
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
        outbound = Outbound(listen)
        with pytest.raises(UsageError):
            async with outbound.access(Network("allowlist", ("not a host",))):
                pytest.fail("should not be entered")
        async with outbound.access(ALLOWED) as environment:
            assert environment
        await outbound.close()

    asyncio.run(scenario())


def test_nothing_is_left_after_closing():
    async def scenario():
        outbound = Outbound(listen)
        async with outbound.access(ALLOWED):
            pass
        await outbound.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
