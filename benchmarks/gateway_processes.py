"""The other two processes of `benchmarks.gateway`: a provider, and a gateway before it.

Each prints a line of JSON once it listens, answers a command per line on its standard input, and ends with that.
"""

import asyncio
import json
import resource
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from seatrial.cli.long_run import relax_gc
from seatrial.gateway.calls import CallLog
from seatrial.gateway.prices import load_prices
from seatrial.gateway.server import listening_socket, serve
from seatrial.gateway.session import Session, SessionOptions
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.replies import Reply, render_stream
from seatrial.testing.fake_provider import FakeProvider, Say

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
EVENT_SEC = 0.002
LENGTH = 5
HELD_SEC = 0.25
SECRETS = ("sk-proj-not-a-real-key-0123456789", "ghp_not-a-real-token-0123456789", "not-a-real-password")


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


async def commands() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def stream_slowly(request: web.BaseRequest) -> web.StreamResponse:
    """One event at a time, so that each is a chunk of its own wherever it arrives."""
    await request.content.read()
    answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await answer.prepare(request)
    first, *middle, stop, usage, done = render_stream("openai_chat", Reply(text="a stream of words, " * 60))
    for event in (first, *middle * LENGTH, stop, usage, done):
        await answer.write(event)
        await asyncio.sleep(EVENT_SEC)
    return answer


async def run_provider() -> None:
    """Answers at once; another that streams; and a third that holds its answers until all calls are there."""
    runner = web.ServerRunner(web.Server(stream_slowly, access_log=None))
    await runner.setup()
    listener = listening_socket()
    await web.SockSite(runner, listener).start()
    async with FakeProvider() as fast, FakeProvider(otherwise=Say(late=True)) as held:
        streaming = f"http://127.0.0.1:{listener.getsockname()[1]}"
        say(fast=fast.base_url, held=held.base_url, streaming=streaming)
        reader = await commands()
        while line := await reader.readline():
            await held.arrived(int(line))
            await asyncio.sleep(HELD_SEC)
            held.release()
    await runner.cleanup()


async def run_gateway(url: str) -> None:
    prices = load_prices()
    # Calls are kept in memory, as records are in other benchmarks: what a disk costs is not ours.
    place = tempfile.TemporaryDirectory(prefix="seatrial-bench-", dir=MEMORY)
    with place as folder, CallLog(Path(folder), SECRETS) as log:
        async with HttpProvider(ProviderOptions(base_url=url), environ={}) as provider:
            session = Session(provider, log, SessionOptions(max_cost_usd=1e9), prices)
            async with serve(session, listening_socket()) as port:
                say(url=f"http://127.0.0.1:{port}", key=session.key)
                reader = await commands()
                while line := await reader.readline():
                    if line == b"trace\n":
                        tracemalloc.start()
                    current, peak = tracemalloc.get_traced_memory()
                    say(current=current, peak=peak)


async def run_bare(url: str) -> None:
    """The least that aiohttp can do between a client and a provider, for comparison: it looks at nothing."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout()) as client:
        target = URL(f"{url}/v1/chat/completions")

        async def pass_on(request: web.BaseRequest) -> web.StreamResponse:
            body = await request.content.read()
            async with client.post(target, data=body, headers={"content-type": "application/json"}) as answer:
                if answer.content_type == "application/json":
                    return web.Response(body=await answer.read(), content_type="application/json")
                response = web.StreamResponse(headers={"content-type": "text/event-stream"})
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                return response

        runner = web.ServerRunner(web.Server(pass_on, access_log=None))
        await runner.setup()
        listener = listening_socket()
        await web.SockSite(runner, listener).start()
        say(url=f"http://127.0.0.1:{listener.getsockname()[1]}", key="none")
        await (await commands()).read()
        await runner.cleanup()


ROLES: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "provider": run_provider,
    "gateway": run_gateway,
    "bare": run_bare,
}


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    relax_gc()  # as the commands do that have a gateway; the bare one for comparison too
    asyncio.run(ROLES[sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
