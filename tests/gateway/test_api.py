"""What a trial's requests take up: counted to the byte, in files when it is much, and nothing left behind."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.gateway.api import Bodies, BodyTooLargeError, Held
from seatrial.gateway.base import Limits
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.testing.fake_provider import Fail, Say
from tests.gateway.gateways import open_gateway, post
from tests.gateway.upstream_calls import PATHS, call, provider

SMALL = Limits(body_bytes=1000, small_bytes=100, memory_bytes=150, disk_bytes=1500)


class Pieces:
    """A body that comes in these pieces."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._left = list(pieces)

    async def readany(self) -> bytes:
        return self._left.pop(0)

    def at_eof(self) -> bool:
        return not self._left


def collect(bodies: Bodies, *pieces: bytes) -> Held:
    return asyncio.run(bodies.collect(Pieces(pieces[1:]), pieces[0]))


def content(held: Held) -> bytes:
    return held.data if held.spooled is None else held.spooled.load()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@given(st.lists(st.lists(st.binary(max_size=400), min_size=1, max_size=5), max_size=6))
def test_bodies_come_out_as_they_went_in_and_everything_is_given_back(requests):
    bodies, before = Bodies(SMALL), descriptors()
    held = []
    for pieces in requests:
        try:
            one = collect(bodies, *pieces)
        except BodyTooLargeError:
            assert sum(map(len, pieces)) > 1000 or bodies.disk + sum(map(len, pieces)) > 1500
            continue
        held.append(one.__enter__())
        assert content(one) == b"".join(pieces)
        assert bodies.memory <= 150
        assert bodies.disk <= 1500
    for one in held:
        one.__exit__()
    assert (bodies.memory, bodies.disk, descriptors()) == (0, 0, before)


def test_what_is_large_or_too_much_at_once_is_in_a_file_without_a_name(tmp_path):
    bodies = Bodies(Limits(small_bytes=100, memory_bytes=150, spool=tmp_path))
    with collect(bodies, b"x" * 101) as large, collect(bodies, b"y" * 100) as small:
        with collect(bodies, b"z" * 100) as third:
            assert [each.spooled is None for each in (large, small, third)] == [False, True, False]
            assert list(tmp_path.iterdir()) == []
        assert bodies.disk == 101


def test_a_body_that_breaks_off_leaves_nothing(tmp_path):
    class Broken(Pieces):
        async def readany(self) -> bytes:
            raise ConnectionResetError

    bodies, before = Bodies(SMALL), descriptors()
    for first in (b"x", b"x" * 200):
        with pytest.raises(ConnectionResetError):
            asyncio.run(bodies.collect(Broken([b""]), first))
    assert (bodies.memory, bodies.disk, descriptors()) == (0, 0, before)


def test_what_came_of_a_body_counts_and_goes_with_it():
    bodies = Bodies(SMALL)
    with collect(bodies, b"x" * 700) as held:
        assert held.spooled is not None
        other = held.spooled.beside(b"y" * 700)
        assert (other.load(), bodies.disk) == (b"y" * 700, 1400)
        with pytest.raises(BodyTooLargeError, match="send fewer at a time"):
            held.spooled.beside(b"z" * 700)
    assert bodies.disk == 0


TEXT = "x" * 3000
LIMITS = Limits(small_bytes=1000)


@pytest.mark.parametrize("speaks", ["openai_chat", "anthropic"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("run", [{}, {"model": "run"}])
def test_a_call_whose_body_is_in_a_file_is_like_any_other(tmp_path, speaks, stream, run):
    """Passed on, translated, changed by the run, tried again and written down."""
    request = call("openai_chat", stream=stream, messages=[{"role": "user", "content": TEXT}])

    async def scenario() -> None:
        options: dict[str, Any] = {"dialects": frozenset({speaks}), "retries": 1}
        async with provider(Fail(503), Say("done"), **options) as (upstream, fake):
            async with open_gateway(upstream, tmp_path, limits=LIMITS, **run) as gateway:
                status, body = await post(gateway, PATHS["openai_chat"], request.body)
                small, _ = await post(gateway, PATHS["openai_chat"], call().body)
            assert (status, small) == (200, 200)
            assert b"done" in body
            assert fake.received[0].body == fake.received[1].body
            assert fake.received[0].headers["content-length"] == str(len(fake.received[0].body))
            assert fake.received[0].payload["messages"][0]["role"] == "user"
            assert fake.received[0].payload["model"] == run.get("model", "m")
        (kept, _) = gateway.calls
        assert kept.messages == [{"role": "user", "content": TEXT}]
        assert (kept.model, kept.upstream_model) == ("m", run.get("model", "m"))
        assert kept.request is not None
        assert (kept.request["model"], kept.request.get("stream", False)) == (run.get("model", "m"), stream)
        assert (gateway.session.bodies.memory, gateway.session.bodies.disk) == (0, 0)

    asyncio.run(scenario())


def test_a_large_request_is_repeated_by_an_sdk_as_any_other(tmp_path):
    async def scenario() -> None:
        body = call(messages=[{"role": "user", "content": TEXT}]).body
        async with (
            provider(Fail(404), retries=0) as (upstream, _),
            open_gateway(upstream, tmp_path, limits=LIMITS, max_turns=1) as gateway,
        ):
            statuses = [
                (await post(gateway, PATHS["openai_chat"], body, **{"x-stainless-retry-count": str(count)}))[0]
                for count in range(3)
            ]
        assert statuses == [404, 200, 429]
        assert [each.retry_of for each in gateway.calls] == [None, 0, None]

    asyncio.run(scenario())


def test_upstreams_that_take_no_files_get_all_of_a_large_request(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["a"] * 8), tmp_path, limits=LIMITS) as gateway:
            body = call(messages=[{"role": "user", "content": TEXT}]).body
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(post(gateway, PATHS["openai_chat"], body)) for _ in range(8)]
        assert {task.result()[0] for task in tasks} == {200}
        assert gateway.calls[0].messages[0]["content"] == TEXT

    asyncio.run(scenario())


def test_too_much_at_once_is_refused_and_only_that(tmp_path):
    async def scenario() -> None:
        limits = Limits(small_bytes=1000, disk_bytes=7000)
        script = [Say("late", late=True)] * 2
        body = call(messages=[{"role": "user", "content": TEXT}]).body
        async with (
            provider(*script, retries=0) as (upstream, fake),
            open_gateway(upstream, tmp_path, limits=limits) as gateway,
        ):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(post(gateway, PATHS["openai_chat"], body)) for _ in range(2)]
                await fake.arrived(2)
                status, said = await post(gateway, PATHS["anthropic"], body)
                assert (status, orjson.loads(said)["error"]["type"]) == (413, "request_too_large")
                assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == 200
                fake.release()
            assert [task.result()[0] for task in tasks] == [200, 200]
            assert (await post(gateway, PATHS["anthropic"], body))[0] == 200
        assert gateway.session.failure is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * 3000, 400),
        (b"[" + b"[]," * 3000 + b"[]]", 400),
        (b'{"messages": 5, "x": "' + b"x" * 3000 + b'"}', 400),
    ],
)
def test_a_large_body_that_is_no_request_is_refused_and_not_kept(tmp_path, body, status):
    async def scenario() -> None:
        async with provider(retries=0) as (upstream, fake):
            async with open_gateway(upstream, tmp_path, limits=LIMITS) as gateway:
                assert (await post(gateway, PATHS["openai_chat"], body))[0] == status
            assert not fake.received
        assert len((tmp_path / "calls.jsonl").read_bytes()) < 1000
        assert gateway.session.bodies.disk == 0

    asyncio.run(scenario())


def test_json_that_would_fill_the_memory_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("seatrial.gateway.server._MOST_PARTS", 1000)

    async def scenario() -> None:
        async with open_gateway(ScriptedModel([]), tmp_path, limits=LIMITS) as gateway:
            body = b'{"messages":[' + b"{}," * 1000 + b"{}]}"
            assert (await post(gateway, PATHS["openai_chat"], body))[0] == 413

    asyncio.run(scenario())


def test_a_spool_that_cannot_be_written_is_our_failure(tmp_path: Path):
    async def scenario() -> None:
        limits = Limits(small_bytes=1000, spool=tmp_path / "missing")
        async with open_gateway(ScriptedModel(["a"]), tmp_path, limits=limits) as gateway:
            assert (await post(gateway, PATHS["openai_chat"], b"x" * 2000))[0] == 500
        assert "a large request cannot be kept" in str(gateway.session.failure)

    asyncio.run(scenario())


def test_a_spool_without_room_refuses_the_request_and_fails_nothing(tmp_path: Path, monkeypatch):
    def full(*_: object, **__: object) -> Any:
        return Path("/dev/full").open("r+b", buffering=0)

    monkeypatch.setattr("seatrial.gateway.api.tempfile.TemporaryFile", full)

    async def scenario() -> None:
        limits = Limits(small_bytes=1000, spool=tmp_path)
        async with open_gateway(ScriptedModel(["a"]), tmp_path, limits=limits) as gateway:
            status, said = await post(gateway, PATHS["openai_chat"], b"x" * 2000)
            assert (status, b"no room on the gateway's disk" in said) == (413, True)
            assert (gateway.session.failure, gateway.session.bodies.disk) == (None, 0)
            assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == 200

    asyncio.run(scenario())
