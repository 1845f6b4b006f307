"""Talking to a daemon that is not there, says no, falls silent or hangs up: an error of ours, in time."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from seatrial.errors import HostUnsupportedError, SandboxError
from seatrial.sandbox.engine import client as module
from seatrial.sandbox.engine.client import Endpoint, EngineClient, EngineError, find_endpoint, parse_address, upgrade

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


def test_what_the_environment_names_comes_first(tmp_path):
    environ = {"DOCKER_HOST": "unix:///run/mine.sock", "CONTAINER_HOST": "unix:///run/pods.sock"}
    assert find_endpoint("docker", environ) == Endpoint("docker", "/run/mine.sock")
    assert find_endpoint("podman", environ) == Endpoint("podman", "/run/pods.sock")
    assert str(find_endpoint("docker", {"DOCKER_HOST": "tcp://10.0.0.1:2375"})) == "tcp://10.0.0.1:2375"


def test_docker_s_own_context_is_followed(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "colima"}))
    meta = tmp_path / "contexts/meta" / hashlib.sha256(b"colima").hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Endpoints": {"docker": {"Host": "unix:///home/me/colima.sock"}}}))
    assert find_endpoint("docker", {"DOCKER_CONFIG": str(tmp_path)}).socket == "/home/me/colima.sock"
    assert find_endpoint("docker", {"DOCKER_CONFIG": str(tmp_path), "DOCKER_CONTEXT": "default"}).socket != "x"


@pytest.mark.parametrize("content", ["", "[]", "{", '{"currentContext": "gone"}', '{"currentContext": 7}'])
def test_settings_that_make_no_sense_are_as_none(tmp_path, content):
    (tmp_path / "config.json").write_text(content)
    found = find_endpoint("docker", {"DOCKER_CONFIG": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)})
    assert found.socket == "/var/run/docker.sock"


def test_a_user_s_own_daemon_is_found(tmp_path):
    (tmp_path / "podman").mkdir()
    for engine, name in (("docker", "docker.sock"), ("podman", "podman/podman.sock")):
        (tmp_path / name).touch()
        environ = {"XDG_RUNTIME_DIR": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}
        assert find_endpoint(engine, environ).socket == str(tmp_path / name)  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["ssh://me@host", "tcp://host", "npipe://x", "unix://", "", "tcp://host:x"])
def test_addresses_of_other_kinds_are_refused_with_a_way_out(address):
    with pytest.raises(HostUnsupportedError, match=r"ssh -L"):
        parse_address("docker", address)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "no"), "docker group"),
        (FileNotFoundError(2, "no"), "no docker daemon at unix:///s; start it"),
        (ConnectionRefusedError(111, "no"), "no docker daemon"),
        (TimeoutError(), "does not answer"),
        (EOFError("half an answer"), "half an answer"),
    ],
)
def test_an_error_says_what_to_do(error, said):
    assert said in Endpoint("docker", "/s").explain(error)
