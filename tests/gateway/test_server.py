"""The gateway's server: what it refuses at the door, and how it ends."""

import asyncio
import errno
import os
import select
import socket
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from yarl import URL

from seatrial.errors import ProviderError
from seatrial.gateway import server
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.base import Limits
from seatrial.gateway.server import serve
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.model.trace import DialectName
from seatrial.testing.fake_provider import Big, Hang, Say
from tests.gateway.gateways import Gateway, gateway_to, open_gateway, post
from tests.gateway.test_session import new_session
from tests.gateway.upstream_calls import DIALECTS, PATHS, call, provider


def error_type(dialect: DialectName, body: bytes) -> str:
    value = orjson.loads(body)
    assert (value.get("type") == "error") == (dialect == "anthropic")
    return str(value["error"]["status" if dialect == "google" else "type"])


REFUSALS = {
    "google": ("INVALID_ARGUMENT", "UNAUTHENTICATED"),
    "anthropic": ("invalid_request_error", "authentication_error"),
}
"""What a bad request and a wrong key are called; the others have one word for both."""


def refusals(dialect: DialectName) -> tuple[str, str]:
    return REFUSALS.get(dialect, ("invalid_request_error", "invalid_request_error"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe", b"[]", b"null", b'"text"', b'{"model":NaN}', b"{}"])
def test_what_is_no_request_is_refused_in_the_dialects_own_words(tmp_path, dialect, body):
    async def scenario() -> None:
        model = ScriptedModel(["unsaid"])
        async with open_gateway(model, tmp_path) as gateway:
            status, said = await post(gateway, call(dialect).path, body)
        assert (status, error_type(dialect, said), model.remaining) == (400, refusals(dialect)[0], 1)
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_a_request_that_is_too_large_is_refused(tmp_path):
    async def in_pieces() -> Any:
        for _ in range(20):
            yield b"x" * 100

    async def scenario() -> None:
        model = ScriptedModel(["unsaid"])
        limits = Limits(body_bytes=1000)
        async with open_gateway(model, tmp_path, limits=limits) as gateway, gateway.plain() as client:
            for body in (b"x" * 1001, in_pieces()):
                async with client.post(PATHS["anthropic"], data=body) as response:
                    assert response.status == 413
                    assert error_type("anthropic", await response.read()) == "request_too_large"
        assert model.remaining == 1
        assert [each.error and each.error.status for each in gateway.calls] == [413, 413]

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_key_nothing_is_read(tmp_path, dialect):
    async def scenario() -> None:
        model = ScriptedModel(["unsaid"])
        async with open_gateway(model, tmp_path) as gateway:
            status, said = await post(gateway, call(dialect).path, call(dialect).body, authorization="Bearer nobody")
        assert (status, error_type(dialect, said), model.remaining) == (401, refusals(dialect)[1], 1)

    asyncio.run(scenario())


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_either_way_of_showing_the_key_opens(tmp_path, header):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["said"]), tmp_path) as gateway:
            shown = {"authorization": "", header: gateway.session.key}
            status, _ = await post(gateway, PATHS["openai_chat"], call().body, **shown)
        assert status == 200

    asyncio.run(scenario())


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/chat/completions?", "/chat/completions?beta=true"])
def test_no_way_of_writing_a_path_leads_past_the_limits(tmp_path, path):
    async def scenario() -> None:
        async with gateway_to(tmp_path, max_turns=1) as (gateway, fake), gateway.plain() as client:
            url = URL(f"{gateway.url}{path}", encoded=True)
            for status in (200, 429):
                async with client.post(url, data=call().body) as response:
                    assert response.status == status
        assert (len(fake.received), len(gateway.calls)) == (1, 2)

    asyncio.run(scenario())


@pytest.mark.parametrize("stream", [True, False])
def test_closed_in_the_middle_it_breaks_calls_off_and_writes_them_down(tmp_path, stream):
    """Whoever looks at calls.jsonl after the block sees every call, and nothing is left to hang."""

    async def ask(gateway: Gateway) -> None:
        with pytest.raises(aiohttp.ClientError):
            await post(gateway, PATHS["openai_chat"], call(stream=stream).body)

    async def scenario() -> None:
        script = [Hang(after=2) if stream else Hang()] * 3
        async with asyncio.timeout(20), provider(*script, retries=0) as (upstream, fake), asyncio.TaskGroup() as group:
            async with open_gateway(upstream, tmp_path) as gateway:
                for _ in script:
                    group.create_task(ask(gateway))
                await fake.arrived(3)
            assert [each.error and each.error.kind for each in gateway.calls] == ["disconnected"] * 3

    asyncio.run(scenario())


def test_calls_that_take_their_time_to_break_off_are_waited_for(tmp_path):
    class Slow(ScriptedModel):
        asked = asyncio.Event()
        cleaned_up = False

        @asynccontextmanager
        async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
            self.asked.set()
            try:
                await asyncio.Event().wait()
                raise AssertionError("nobody waits for so long")
                yield
            finally:
                for _ in range(100):
                    await asyncio.sleep(0)
                self.cleaned_up = True

    async def ask(gateway: Gateway) -> None:
        with pytest.raises(aiohttp.ClientError):
            await post(gateway, PATHS["openai_chat"], call().body)

    async def scenario() -> None:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            model = Slow([])
            async with open_gateway(model, tmp_path) as gateway:
                group.create_task(ask(gateway))
                await model.asked.wait()
            assert model.cleaned_up
            assert [each.error and each.error.kind for each in gateway.calls] == ["disconnected"]

    asyncio.run(scenario())


def test_a_connection_that_is_kept_open_does_not_keep_the_gateway_open(tmp_path):
    async def scenario() -> None:
        async with asyncio.timeout(20):
            async with gateway_to(tmp_path, Say("one")) as (gateway, _):
                client = aiohttp.ClientSession(gateway.url, headers=gateway.auth)
                async with client.post(PATHS["openai_chat"], data=call().body) as response:
                    await response.read()
            await client.close()

    asyncio.run(scenario())


def test_the_port_is_free_again_afterwards(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel([]), tmp_path) as gateway:
            port = int(gateway.url.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(scenario())


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(gateway: Gateway) -> Connection:
    return await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))


async def leave(*connections: Connection) -> None:
    for _, writer in connections:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def head(gateway: Gateway, length: int) -> bytes:
    key = f"x-api-key: {gateway.session.key}"
    return f"POST {PATHS['openai_chat']} HTTP/1.1\r\nhost: x\r\n{key}\r\ncontent-length: {length}\r\n\r\n".encode()


async def ask(gateway: Gateway, connection: Connection) -> int:
    """The status of an answer, which is read to its end."""
    reader, writer = connection
    body = call().body
    writer.write(head(gateway, len(body)) + body)
    said = await reader.readuntil(b"\r\n\r\n")
    length = next(line for line in said.lower().split(b"\r\n") if line.startswith(b"content-length"))
    await reader.readexactly(int(length.split(b":")[1]))
    return int(said.split()[1])


def accepted(gateway: Gateway) -> int:
    """How many connections this process has taken from the gateway's port."""
    port = f":{int(gateway.url.rpartition(':')[2]):04X} "
    mine = {str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(f"{line[1]} ".endswith(port) and line[3] == "01" and f"socket:[{line[9]}]" in mine for line in lines)


def test_what_is_too_much_waits_until_others_close(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a"] * 9), tmp_path, limits=Limits(connections=3)) as gateway:
            silent = [await connect(gateway) for _ in range(3)]
            late = await connect(gateway)
            asking = asyncio.ensure_future(ask(gateway, late))
            assert await ask(gateway, silent[0]) == 200
            assert accepted(gateway) == 3
            assert not asking.done()
            silent[1][1].close()
            assert await asking == 200
            assert await ask(gateway, silent[2]) == 200
            await leave(*silent, late)
        assert gateway.session.failure is None

    asyncio.run(scenario())


def test_the_longest_idle_connection_makes_room(tmp_path):
    async def scenario() -> None:
        limits = Limits(connections=2, evicted_after_sec=0)
        async with open_gateway(ScriptedModel(["a"] * 9), tmp_path, limits=limits) as gateway:
            first, second, third = [await connect(gateway) for _ in range(3)]
            assert await ask(gateway, first) == 200
            assert await ask(gateway, second) == 200
            assert await ask(gateway, third) == 200
            assert await first[0].read() == b""
            assert await ask(gateway, second) == 200
            await leave(first, second, third)

    asyncio.run(scenario())


def test_one_agents_connections_keep_nobody_else_out(tmp_path):
    async def scenario(folders: list[Path]) -> None:
        async with AsyncExitStack() as stack:
            hostile, honest = [
                await stack.enter_async_context(
                    open_gateway(ScriptedModel(["a"] * 9), each, limits=Limits(connections=20))
                )
                for each in folders
            ]
            address = ("127.0.0.1", int(hostile.url.rpartition(":")[2]))
            for _ in range(200):
                stack.enter_context(socket.create_connection(address))
            assert (await post(honest, PATHS["openai_chat"], call().body))[0] == 200
            assert 0 < accepted(hostile) <= 20
        assert (hostile.session.failure, honest.session.failure) == (None, None)

    folders = [tmp_path / "hostile", tmp_path / "honest"]
    for folder in folders:
        folder.mkdir()
    asyncio.run(scenario(folders))


@pytest.mark.parametrize("sent", [b"", b"POST /v1/mess", b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-a: "])
def test_who_does_not_come_to_the_point_is_closed(tmp_path, sent):
    async def scenario() -> None:
        limits = Limits(idle_sec=0.05)
        async with asyncio.timeout(20), open_gateway(ScriptedModel([]), tmp_path, limits=limits) as gateway:
            reader, writer = await connect(gateway)
            writer.write(sent)
            assert await reader.read() == b""
            await leave((reader, writer))

    asyncio.run(scenario())


def test_a_body_that_does_not_come_to_an_end_is_cut_off(tmp_path):
    async def drip(writer: asyncio.StreamWriter) -> None:
        while not writer.is_closing():
            writer.write(b" ")
            await asyncio.sleep(0.01)

    async def scenario() -> None:
        limits = Limits(body_sec=0.1)
        async with asyncio.timeout(20), open_gateway(ScriptedModel([]), tmp_path, limits=limits) as gateway:
            reader, writer = await connect(gateway)
            writer.write(head(gateway, 10_000))
            dripping = asyncio.ensure_future(drip(writer))
            with suppress(ConnectionError):
                assert await reader.read() == b""
            dripping.cancel()
            await leave((reader, writer))
        assert gateway.session.failure is None
        assert gateway.session.bodies.memory == 0

    asyncio.run(scenario())


def test_an_answer_that_nobody_reads_is_given_up(tmp_path):
    def left(client: socket.socket) -> bool:
        """Wait until the other side is gone, without reading anything."""
        poll = select.poll()
        poll.register(client, 0)
        return bool(poll.poll(20_000))

    async def scenario() -> None:
        async with (
            provider(Big(50 * 2**20), retries=0) as (upstream, _),
            open_gateway(upstream, tmp_path, limits=Limits(stalled_sec=0.1)) as gateway,
        ):
            key = f"x-api-key: {gateway.session.key}"
            with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as client:
                line = "POST /v1/messages/count_tokens HTTP/1.1"
                client.sendall(f"{line}\r\nhost: x\r\n{key}\r\ncontent-length: 2\r\n\r\n{{}}".encode())
                assert await asyncio.to_thread(left, client)
        assert gateway.session.failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize("line", [b"x" * 20_000, b"\r\n".join(b"x-%d: 1" % number for number in range(500))])
def test_heads_without_measure_are_refused_without_a_word_to_the_user(tmp_path, line, caplog):
    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            reader, writer = await connect(gateway)
            writer.write(b"POST /v1/messages HTTP/1.1\r\nx-a: " + line + b"\r\n\r\n")
            assert (await reader.readline()).split()[1] == b"400"
            await leave((reader, writer))
        assert not fake.received
        assert not caplog.records

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "sent",
    [
        b"content-encoding: gzip\r\ncontent-length: 9\r\n\r\nnot gzip!",
        b"content-encoding: deflate\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\nnonsense\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n{}",
        b"content-length: 5\r\ncontent-length: 6\r\n\r\n{}",
        b"content-length: -5\r\n\r\n{}",
    ],
)
def test_a_body_in_a_wrong_form_is_the_agents_mistake(tmp_path, sent):
    """As a failure of ours it would keep the trial from being counted."""

    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, fake):
            reader, writer = await connect(gateway)
            key = f"x-api-key: {gateway.session.key}"
            writer.write(f"POST /v1/messages HTTP/1.1\r\nhost: x\r\n{key}\r\n".encode() + sent)
            assert (await reader.readline()).split()[1] == b"400"
            await leave((reader, writer))
        assert not fake.received
        assert gateway.session.failure is None

    asyncio.run(scenario())


class NoDescriptors:
    """A listener of a process that has no descriptors left."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)


@pytest.mark.parametrize(("modest", "is_ours"), [(16, True), (-1, False)])
def test_a_lack_of_descriptors_is_our_failure_unless_the_agent_holds_many(monkeypatch, modest, is_ours):
    monkeypatch.setattr(server, "_MODEST", modest)
    tried = asyncio.Event()

    class Listener(NoDescriptors):
        times = 0

        def accept(self) -> Any:
            self.times += 1
            if self.times > 2:
                tried.set()
            return super().accept()

    async def scenario() -> bool:
        session = new_session()
        session.limits = Limits(starved_sec=0)
        listener: Any = Listener(socket.create_server(("127.0.0.1", 0)))
        async with asyncio.timeout(20), serve(session, listener) as port:
            connection = await asyncio.open_connection("127.0.0.1", port)
            await tried.wait()
            await leave(connection)
        assert session.failure is None or "ulimit -n" in str(session.failure)
        return session.broken.is_set()

    assert asyncio.run(scenario()) == is_ours


@pytest.mark.parametrize("asks_again", [False, True])
def test_a_connection_that_this_process_left_waiting_is_no_failure_of_the_agents(tmp_path, monkeypatch, asks_again):
    """The agent's client gives up before anybody has heard of it; only the kernel knows how long it waited."""
    monkeypatch.setattr("seatrial.gateway.waits._LATE_SEC", 0.05)

    async def scenario() -> None:
        async with gateway_to(tmp_path) as (gateway, _):
            body = call().body
            with socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2]))) as client:
                client.sendall(head(gateway, len(body)) + body)
                time.sleep(0.1)  # noqa: ASYNC251 - so long this process does nothing
            if asks_again:
                assert (await post(gateway, PATHS["openai_chat"], body))[0] == 200
                await gateway.session.check_end(timed_out=False)
            else:
                with pytest.raises(ProviderError, match=r"accepted a connection of the agent's only after 0\.1 s"):
                    await gateway.session.check_end(timed_out=False)

    asyncio.run(scenario())
