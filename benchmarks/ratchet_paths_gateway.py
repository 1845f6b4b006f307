"""The hot paths of a model call and of a rollout, in the form of ratchet_paths.py.

The provider is a process of its own; the client is in this one, and costs the same for each call.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.gateway import Process
from benchmarks.gateway_client import HELLO, connect
from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.calls import CallLog
from seatrial.gateway.prices import load_prices
from seatrial.gateway.server import listening_socket, serve
from seatrial.gateway.session import Session, SessionOptions
from seatrial.gateway.upstreams.http import ProviderOptions
from seatrial.gateway.upstreams.provider import HttpProvider
from seatrial.gateway.upstreams.replies import Reply, render_stream
from seatrial.model.trace import DialectName

Work = Callable[[], object]

CALLS = 100
ROLLOUTS = 20
SECRETS = ("sk-proj-not-a-real-key-0123456789", "ghp_not-a-real-token-0123456789", "not-a-real-password")


class _Streams:
    """An upstream that streams an answer, a chunk for each event."""

    dialects: frozenset[DialectName] = frozenset({"openai_chat"})

    @asynccontextmanager
    async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
        async def chunks() -> AsyncIterator[bytes]:
            for event in render_stream("openai_chat", Reply(text="a stream of words, " * 200)):
                yield event

        yield ModelReply(200, {"content-type": "text/event-stream"}, chunks())


def _calls(scratch: Path, stack: ExitStack, upstream: Upstream, count: int, path: str, **asked: Any) -> Work:
    runner = stack.enter_context(asyncio.Runner())
    opened = AsyncExitStack()

    async def open_all() -> Any:
        if isinstance(upstream, HttpProvider):
            await opened.enter_async_context(upstream)
        log = opened.enter_context(CallLog(scratch, SECRETS))
        session = Session(upstream, log, SessionOptions(max_cost_usd=1e9), load_prices())
        port = await opened.enter_async_context(serve(session, listening_socket()))
        return await opened.enter_async_context(connect(f"http://127.0.0.1:{port}", session.key, path))

    connection = runner.run(open_all())
    stack.callback(lambda: runner.run(opened.aclose()))

    async def ask() -> None:
        for _ in range(count):
            await connection.ask(HELLO, **asked)

    return lambda: runner.run(ask())


def _provider(stack: ExitStack) -> HttpProvider:
    url = stack.enter_context(Process(("provider",))).ready["fast"]
    return HttpProvider(ProviderOptions(base_url=url), environ={})


def gateway_call(scratch: Path, stack: ExitStack) -> Work:
    """Calls in the dialect of the provider, one after the other."""
    return _calls(scratch, stack, _provider(stack), CALLS, "/v1/chat/completions")


def translated_call(scratch: Path, stack: ExitStack) -> Work:
    """Calls in another dialect."""
    return _calls(scratch, stack, _provider(stack), CALLS, "/v1/messages", max_tokens=100)


def streamed_chunks(scratch: Path, stack: ExitStack) -> Work:
    """A long answer, a token at a time."""
    return _calls(scratch, stack, _Streams(), 1, "/v1/chat/completions", stream=True)


def single_turn_rollout(_: Path, __: ExitStack) -> Work:
    """Rollouts of one call to a function, with no task and no sandbox."""
    import seatrial as vf  # noqa: PLC0415 - the paths of the gateway need none of it

    async def model(messages: vf.Messages) -> str:
        return "ok"

    env = vf.SingleTurnEnv(dataset=[{"prompt": "go"}] * ROLLOUTS)
    return lambda: env.evaluate_sync(model, "m", max_concurrent=1)


def harbor_env_rollout(scratch: Path, stack: ExitStack) -> Work:
    """Rollouts of an agent that is done at once, with the sandbox and the verifier."""
    import seatrial as vf  # noqa: PLC0415 - as above
    from benchmarks import harborenv_agents as agents  # noqa: PLC0415

    runner = stack.enter_context(asyncio.Runner())
    env = vf.HarborEnv(agents.AGENT, agents.write_task(scratch), image="host")
    runner.run(env.__aenter__())
    stack.callback(lambda: runner.run(env.__aexit__(None, None, None)))

    async def evaluate() -> None:
        for _ in range(ROLLOUTS):
            results = await env.evaluate(agents.silent, "m")
            assert results["metadata"]["avg_reward"] == 1.0, results["outputs"]

    return lambda: runner.run(evaluate())
