"""Many at once: sessions of two hundred trials, and a burst of connections."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from seatrial.gateway.upstreams.scripted import ScriptedModel
from tests.conftest import OPEN_FILES
from tests.gateway.gateways import Gateway, open_gateway
from tests.gateway.upstream_calls import PATHS, call, provider

AGENTS = 200
CALLS = 3
BURST = 2000
pytestmark = pytest.mark.skipif(OPEN_FILES < 5000, reason=f"only {OPEN_FILES} open files are allowed: ulimit -Hn 5000")


async def work(client: aiohttp.ClientSession, gateway: Gateway, name: int) -> list[str]:
    """A few calls of one agent, each going on with the last one, every second one streamed."""
    messages = [{"role": "user", "content": f"agent {name}"}]
    said = []
    for turn in range(CALLS):
        body = call(messages=messages, stream=bool(turn % 2)).body
        async with client.post(f"{gateway.url}{PATHS['openai_chat']}", data=body, headers=gateway.auth) as response:
            said.append(f"{response.status} {'ok' in await response.text()}")
        messages = [*messages, {"role": "assistant", "content": "ok"}, {"role": "user", "content": f"turn {turn}"}]
    return said


def test_two_hundred_agents_at_once(tmp_path: Path):
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            upstream, fake = await stack.enter_async_context(provider(max_concurrent=AGENTS))
            gateways = []
            for name in range(AGENTS):
                folder = tmp_path / str(name)
                folder.mkdir()
                gateways.append(await stack.enter_async_context(open_gateway(upstream, folder)))
            client = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work(client, gateway, name)) for name, gateway in enumerate(gateways)]
        assert {tuple(task.result()) for task in tasks} == {("200 True",) * CALLS}
        assert len(fake.received) == AGENTS * CALLS
        for name, gateway in enumerate(gateways):
            assert [kept.error for kept in gateway.calls] == [None] * CALLS
            assert gateway.calls[0].messages == [{"role": "user", "content": f"agent {name}"}]
            assert gateway.session.usage.calls == CALLS
        assert len({gateway.session.key for gateway in gateways}) == AGENTS

    asyncio.run(scenario())


@pytest.mark.whole
def test_a_burst_of_connections(tmp_path):
    """All connect before the first one asks anything."""

    async def scenario() -> None:
        async with open_gateway(ScriptedModel(["ok"] * BURST), tmp_path) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            async with asyncio.TaskGroup() as group:
                connecting = [group.create_task(asyncio.open_connection("127.0.0.1", port)) for _ in range(BURST)]
            connections = [task.result() for task in connecting]
            body = call().body
            head = f"POST {PATHS['openai_chat']} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {gateway.session.key}\r\n"
            for _, writer in connections:
                writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            statuses = [(await reader.readline()).split()[1] for reader, _ in connections]
            assert set(statuses) == {b"200"}
            for _, writer in connections:
                writer.close()
        assert len(gateway.calls) == BURST

    asyncio.run(scenario())
