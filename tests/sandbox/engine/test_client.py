"""Talking to a daemon that is not there, says no, falls silent or hangs up: an error of ours, in time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.engine import client as module
from seatrial.sandbox.engine.client import EngineClient, EngineError
from seatrial.sandbox.engine.endpoint import Endpoint
from seatrial.sandbox.engine.streams import upgrade

PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"


def serve(folder: Path, answers: list[bytes | None], work: Callable[[EngineClient], Awaitable[object]]) -> object:
    """Do something with a daemon that gives these answers one after the other; None stands for silence."""
    path = str(folder / "socket")
    remaining = iter(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(EOFError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                said = next(remaining, b"")
                if said is None:
                    await reader.read()
                    break
                writer.write(said)
                if not said.startswith(b"HTTP/1.1 200"):
                    break
        writer.close()

    async def play() -> object:
        async with await asyncio.start_unix_server(answer, path), EngineClient(Endpoint("docker", path)) as client:
            return await work(client)

    return asyncio.run(asyncio.wait_for(play(), 20))


def ask(client: EngineClient) -> Awaitable[object]:
    return client.ask("GET", "/thing")


def test_no_daemon(tmp_path):
    async def enter() -> None:
        async with EngineClient(Endpoint("podman", str(tmp_path / "none"))):
            pass

    with pytest.raises(HostUnsupportedError, match=r"no podman daemon at unix://.*/none; start it"):
        asyncio.run(enter())


def test_a_daemon_that_is_there_and_says_nothing_is_not_waited_for_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CONNECT_SEC", 0.05)
    with pytest.raises(HostUnsupportedError, match="does not answer"):
        serve(tmp_path, [None], ask)


def test_nor_is_one_that_falls_silent_later(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_ANSWER_SEC", 0.2)
    with pytest.raises(SandboxError, match=r"does not answer"):
        serve(tmp_path, [PONG, None], ask)
    with pytest.raises(SandboxError, match=r"does not answer"):
        serve(tmp_path, [PONG, None], lambda client: client.stream("/thing"))


def test_its_own_words_are_in_the_error(tmp_path):
    refusal = (
        b'HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{"message": "is dead"}'
    )
    refusal = refusal.replace(b"21", b"22")
    for work in (ask, lambda client: client.stream("/thing")):
        with pytest.raises(EngineError, match="is dead") as caught:
            serve(tmp_path, [PONG, refusal], work)
        assert caught.value.status == 409


def test_hanging_up_in_the_middle_is_an_error_of_ours(tmp_path):
    for work in (ask, lambda client: client.stream("/thing")):
        with pytest.raises(SandboxError):
            serve(tmp_path, [PONG, b"HTTP/1.1 20"], work)


def test_hanging_up_waits_for_nobody_who_does_not_read(tmp_path):
    """A command need not read its input, and the daemon then takes no more of it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 UPGRADED\r\n\r\n")
        await done.wait()
        writer.close()

    done = asyncio.Event()

    async def play() -> None:
        path = str(tmp_path / "socket")
        async with await asyncio.start_unix_server(answer, path):
            stream, _, _ = await upgrade(Endpoint("docker", path), "/thing", None)
            assert stream is not None
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(stream.send(bytes(10_000_000)), 0.1)
            await stream.close()
            done.set()

    asyncio.run(asyncio.wait_for(play(), 20))


def test_a_stream_carries_both_outputs_and_ends(tmp_path):
    head = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\n\r\n"
    frames = b"\1\0\0\0\0\0\0\3out\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\7broken"

    async def listen(client: EngineClient) -> object:
        stream = await client.stream("/thing", {"x": 1}, a="b c")
        found = [piece async for piece in stream.outputs()]
        await stream.close()
        return found

    assert serve(tmp_path, [PONG, head + frames], listen) == [(1, b"out"), (2, b"err"), (1, b"broken")]
