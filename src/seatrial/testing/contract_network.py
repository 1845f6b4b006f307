"""The contract of networks and users: who a command can reach, and as whom it runs."""
# ruff: noqa: S101 - assertions are what it is for

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import get_args

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.api import Network, NetworkMode, open_sandbox
from seatrial.testing.contract_base import Bench, ContractBase, scenario

NO_CLIENT = 77
FETCH = f"""
if command -v wget >/dev/null 2>&1; then exec wget -q -O - "http://127.0.0.1:$PORT/"
elif command -v nc >/dev/null 2>&1; then printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc 127.0.0.1 "$PORT"
elif command -v python3 >/dev/null 2>&1; then
  exec python3 -c "import urllib.request as r; print(r.urlopen('http://127.0.0.1:$PORT/').read().decode())"
else exit {NO_CLIENT}
fi
"""
"""A script that prints what an HTTP server on port $PORT of its own loopback answers."""

_ANSWER = b"hello from outside"


class NetworkContract(ContractBase):
    """Listeners, network modes and users."""

    @scenario
    async def test_a_listener_inside_is_answered_from_outside(self, bench: Bench) -> None:
        """This is how an agent reaches its model, in every network mode."""
        port = _free_port()
        with await bench.sandbox.listen(port) as listener:
            assert listener.getsockname()[:2] == ("127.0.0.1", port)
            async with _answering(listener):
                assert _ANSWER in await _fetch(bench, port, bench.network)

    @scenario
    async def test_a_taken_port_is_refused(self, bench: Bench) -> None:
        """Two listeners cannot share a port; whoever asks second hears of it."""
        port = _free_port()
        with await bench.sandbox.listen(port), pytest.raises(SandboxError, match=str(port)):
            (await bench.sandbox.listen(port)).close()

    @scenario
    async def test_without_a_network_the_host_cannot_be_reached(self, bench: Bench) -> None:
        """The loopback of a sandbox is its own; the same command reaches a listener in there."""
        bench.need("none", there="none" in bench.capabilities.networks)
        inside = await bench.sandbox.listen(_free_port())
        with inside, socket.create_server(("127.0.0.1", 0)) as outside:
            async with _answering(inside), _answering(outside):
                assert _ANSWER in await _fetch(bench, inside.getsockname()[1], Network("none"))
                assert _ANSWER not in await _fetch(bench, outside.getsockname()[1], Network("none"))

    @scenario
    async def test_a_private_loopback_is_out_of_everybody_elses_reach(self, bench: Bench) -> None:
        """Whoever says so lets agents in with any key: no other sandbox gets there, whatever its network."""
        if not bench.capabilities.private_loopback:
            pytest.skip("others may reach what listens inside here, so it takes a key")
        with await bench.sandbox.listen(_free_port()) as inside:
            port = inside.getsockname()[1]
            async with _answering(inside), open_sandbox(bench.backend, bench.spec) as other:
                assert _ANSWER in await _fetch(bench, port, bench.network)
                for mode in bench.capabilities.networks - {"allowlist"}:
                    assert _ANSWER not in await _fetch(replace(bench, sandbox=other), port, Network(mode))

    @scenario
    async def test_with_the_network_of_the_host_it_can(self, bench: Bench) -> None:
        """The loopback is the host's."""
        bench.need("host", there="host" in bench.capabilities.networks)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            async with _answering(listener):
                assert _ANSWER in await _fetch(bench, listener.getsockname()[1], Network("host"))

    @scenario
    async def test_a_network_that_cannot_be_had_is_refused(self, bench: Bench) -> None:
        """Never a wider one instead."""
        missing = set(get_args(NetworkMode)) - bench.capabilities.networks
        if not missing:
            pytest.skip("this backend has every kind of network")
        for mode in missing:
            with pytest.raises(HostUnsupportedError, match=mode):
                await bench.run("true", network=Network(mode))

    @scenario
    async def test_a_command_runs_as_the_user_asked_for(self, bench: Bench) -> None:
        """By number; without one it is the root of the sandbox, who owns what is put there."""
        if not bench.capabilities.many_users:
            with pytest.raises(HostUnsupportedError, match="65534"):
                await bench.run("id", "-u", user=65534)
            bench.skip("many_users")
        assert await bench.ask("id -u", user=65534) == "65534"
        assert await bench.ask("id -u") == "0"
        assert (await bench.sh("echo x >/root-only", user=65534)).exit_code != 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@asynccontextmanager
async def _answering(listener: socket.socket) -> AsyncIterator[None]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_ANSWER), _ANSWER))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, sock=listener.dup()):
        yield


async def _fetch(bench: Bench, port: int, network: Network) -> bytes:
    result = await bench.sh(FETCH, env={"PORT": str(port)}, network=network)
    if result.exit_code == NO_CLIENT:
        pytest.skip("no wget, nc or python3 in this sandbox to connect with")
    return result.stdout
