"""An agent that sends as much as it can, all at once: what it takes up is bounded, and others are served meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from seatrial.gateway.upstreams.function import FunctionModel
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.scripted import ScriptedModel
from seatrial.testing.fake_provider import Say
from tests.gateway.gateways import Gateway, open_gateway, post
from tests.gateway.test_hostile import at_most, drained
from tests.gateway.upstream_calls import PATHS, call, provider

PIECE = b"x" * 2**16
SIZE = 48 * 2**20
REQUESTS = 8


async def large_body() -> AsyncIterator[bytes]:
    yield b'{"model":"m","messages":[{"role":"user","content":"'
    for _ in range(SIZE // len(PIECE)):
        yield PIECE
    yield b'"}]}'


class Sink:
    """A provider that takes whatever comes, keeps nothing, and answers when all of it is there and it is told to."""

    def __init__(self) -> None:
        self.full = asyncio.Event()
        self.release = asyncio.Event()
        self._complete = 0

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        left = int(head.partition(b"content-length:")[2].split()[0])
        while left:
            left -= len(await reader.read(min(left, 2**16)))
        self._complete += 1
        if self._complete == REQUESTS:
            self.full.set()
        await self.release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\nconnection: close\r\n\r\n" + b'{"choices":[{}]}')
        writer.close()
        await writer.wait_closed()


async def small_calls(gateway: Gateway, until: asyncio.Event) -> int:
    count = 0
    while not until.is_set():
        assert (await post(gateway, PATHS["openai_chat"], call().body))[0] == 200
        count += 1
    return count


def folders(place: Path) -> tuple[Path, Path]:
    for name in ("hostile", "honest"):
        (place / name).mkdir()
    return place / "hostile", place / "honest"


@pytest.mark.whole
def test_many_large_bodies_at_once_fill_no_memory_and_starve_nobody(tmp_path):
    hostile_folder, honest_folder = folders(tmp_path)

    async def scenario() -> None:
        sink = Sink()
        async with asyncio.timeout(120), AsyncExitStack() as stack:
            options = ProviderOptions(base_url=await stack.enter_async_context(sink.serve()), retries=0)
            upstream = await stack.enter_async_context(HttpProvider(options, environ={}))
            hostile = await stack.enter_async_context(open_gateway(upstream, hostile_folder))
            model = FunctionModel(lambda _: "ok")
            honest = await stack.enter_async_context(open_gateway(model, honest_folder))
            # One of them at a time is in memory: its bytes, its JSON and the line that is written; not all eight.
            with at_most(300):
                async with asyncio.TaskGroup() as group:
                    served = group.create_task(small_calls(honest, sink.full))
                    sent = [
                        group.create_task(drained(hostile, large_body(), PATHS["openai_chat"])) for _ in range(REQUESTS)
                    ]
                    await sink.full.wait()
                    assert hostile.session.bodies.disk == REQUESTS * (SIZE + 55)
                    assert hostile.session.bodies.memory == 0
                    sink.release.set()
            assert {task.result()[0] for task in sent} == {200}
            assert served.result() > 0
            assert hostile.session.bodies.disk == 0
        assert {len(each.messages[0]["content"]) for each in hostile.calls if each.messages} == {SIZE}
        assert (hostile.session.failure, honest.session.failure) == (None, None)

    asyncio.run(scenario())


def test_one_agents_calls_leave_the_provider_to_others(tmp_path):
    """As many calls at once as the provider gets at all, and none of them comes to an end."""
    hostile_folder, honest_folder = folders(tmp_path)

    async def scenario() -> None:
        script = [Say(), *[Say("late", late=True)] * 7]
        async with asyncio.timeout(20), AsyncExitStack() as stack:
            upstream, fake = await stack.enter_async_context(provider(*script, max_concurrent=8))
            hostile = await stack.enter_async_context(open_gateway(upstream, hostile_folder))
            honest = await stack.enter_async_context(open_gateway(upstream, honest_folder))
            await post(honest, PATHS["openai_chat"], call().body)
            async with asyncio.TaskGroup() as group:
                for _ in range(20):
                    group.create_task(post(hostile, PATHS["openai_chat"], call().body))
                await fake.arrived(8)
                assert (await post(honest, PATHS["openai_chat"], call().body))[0] == 200
                assert fake.in_flight == 7
                fake.release()

    asyncio.run(scenario())


def test_many_refused_requests_leave_few_lines(tmp_path):
    async def scenario() -> None:
        async with open_gateway(ScriptedModel([]), tmp_path) as gateway, gateway.plain() as client:
            for _ in range(600):
                async with client.get("/v1/" + "x" * 900) as response:
                    assert response.status == 404
        assert len(gateway.calls) == 500
        assert (tmp_path / "calls.jsonl").stat().st_size < 2**20

    asyncio.run(scenario())
