"""FakeProvider: a provider of models on loopback that speaks all dialects, and misbehaves when told to.

    async with FakeProvider(Fail(429, headers={"retry-after": "1"}), Say("hello")) as provider:
        ...  # provider.base_url, provider.received

Each request takes the next step of the script; after the last one, every request gets `otherwise`.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import orjson
from aiohttp import web

from seatrial.gateway.dialects import DIALECTS, dialect_of, model_path, token_counter
from seatrial.gateway.upstreams.replies import Reply, estimate_usage, parse_reply, render_response, render_stream
from seatrial.model.trace import DialectName

_BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Say:
    """A good answer: text, a reply, or a whole response; streamed if asked. `late` waits for `release()` before it."""

    what: str | Reply | dict[str, Any] = "ok"
    headers: Mapping[str, str] = field(default_factory=dict)
    late: bool = False


@dataclass(frozen=True, slots=True)
class Fail:
    """An error in the dialect's own shape."""

    status: int
    message: str = "the fake provider was told to fail"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Raw:
    """These bytes, whatever was asked."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})


@dataclass(frozen=True, slots=True)
class Big:
    """A JSON answer of about so many bytes, made while it is sent."""

    size: int


@dataclass(frozen=True, slots=True)
class Hang:
    """A good answer up to `after` pieces, then silence. None: not even headers."""

    after: int | None = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A good answer up to `after` pieces, then the connection is gone. None: before any header."""

    after: int | None = None


Step = Say | Fail | Raw | Big | Hang | Cut


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it arrived; the names of headers are in small letters, `port` is that of the client."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int

    @property
    def payload(self) -> Any:
        """Its JSON."""
        return orjson.loads(self.body)


class FakeProvider:
    """Serves for the length of an `async with` block. The last 10,000 requests are in `received`."""

    def __init__(self, *script: Step, otherwise: Step | None = None) -> None:
        self.script: deque[Step] = deque(script)
        self.otherwise: Step = otherwise or Say()
        self.received: deque[Received] = deque(maxlen=10_000)
        self.in_flight = 0
        self.most_in_flight = 0
        self.base_url = ""
        self._count = 0
        self._news = asyncio.Condition()
        self._released = asyncio.Event()
        self._closing = asyncio.Event()
        self._runner: web.ServerRunner | None = None

    async def __aenter__(self) -> Self:
        listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=1)
        await self._runner.setup()
        await web.SockSite(self._runner, listener, backlog=4096).start()
        self.base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        self._released.set()
        if self._runner is not None:
            await self._runner.cleanup()

    def release(self) -> None:
        """Let the answers that are `late` go, now and from now on."""
        self._released.set()

    async def arrived(self, count: int) -> None:
        """Wait until so many requests have come in since the start."""
        async with self._news:
            await self._news.wait_for(lambda: self._count >= count)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()  # `request.read` would refuse more than a megabyte
        headers = {name.lower(): value for name, value in request.headers.items()}
        peer = request.transport.get_extra_info("peername") if request.transport else None
        received = Received(request.method, request.path_qs, headers, body, peer[1] if peer else 0)
        self.received.append(received)
        self._count += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            async with self._news:
                self._news.notify_all()
            return await self._act(request, received, self.script.popleft() if self.script else self.otherwise)
        finally:
            self.in_flight -= 1

    async def _act(self, request: web.BaseRequest, received: Received, step: Step) -> web.StreamResponse:
        dialect = dialect_of(received.path)
        if isinstance(step, Fail):
            value = DIALECTS[dialect or "openai_chat"].error_body(step.status, "provider", step.message)
            return _whole(orjson.dumps(value), step.status, {"content-type": "application/json", **step.headers})
        if isinstance(step, Raw):
            return _whole(step.body, step.status, step.headers)
        if isinstance(step, Big):
            return await _send_big(request, step.size)
        if isinstance(step, Say):
            if step.late:
                await self._released.wait()
            return await self._say(request, received, step, dialect)
        return await self._break_off(request, received, step, dialect)

    async def _say(
        self, request: web.BaseRequest, received: Received, step: Say, dialect: DialectName | None
    ) -> web.StreamResponse:
        if dialect is None:
            return _whole(
                orjson.dumps(_side_value(received.path)), 200, {"content-type": "application/json", **step.headers}
            )
        if not _asks_for_stream(received):
            response = _response(received, step.what, dialect, self._count)
            return _whole(orjson.dumps(response), 200, {"content-type": "application/json", **step.headers})
        answer = web.StreamResponse(headers={"content-type": "text/event-stream", **step.headers})
        await answer.prepare(request)
        for event in _events(received, step.what, dialect, self._count):
            await answer.write(event)
        return answer

    async def _break_off(
        self, request: web.BaseRequest, received: Received, step: Hang | Cut, dialect: DialectName | None
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        if step.after is not None:
            await answer.prepare(request)
            events = _events(received, "an answer that will not come to its end", dialect or "openai_chat", self._count)
            for _, event in zip(range(step.after), events, strict=False):
                await answer.write(event)
        if isinstance(step, Hang):
            await self._closing.wait()
        if request.transport is not None:
            # A plain close sends what is written first, so that the client surely sees the pieces before the cut.
            request.transport.close()
        return answer


def _whole(body: bytes, status: int, headers: Mapping[str, str]) -> web.Response:
    return web.Response(body=body, status=status, headers=headers)


async def _send_big(request: web.BaseRequest, size: int) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"content-type": "application/json"})
    await answer.prepare(request)
    await answer.write(b'{"choices":[{}],"output":[],"content":[],"padding":"')
    block = b"x" * _BLOCK
    for _ in range(-(-size // _BLOCK)):
        await answer.write(block)
    await answer.write(b'"}')
    return answer


def _asks_for_stream(received: Received) -> bool:
    if (found := model_path(received.path)) is not None:
        return found[1].stream
    try:
        return bool(received.payload.get("stream"))
    except (ValueError, AttributeError):
        return False


def _response(
    received: Received, what: str | Reply | dict[str, Any], dialect: DialectName, serial: int
) -> Mapping[str, Any]:
    if isinstance(what, dict):
        return what
    try:
        payload = received.payload
    except ValueError:
        payload = {}
    reply = what if isinstance(what, Reply) else parse_reply(what)
    found = model_path(received.path)
    model = found[1].model if found else str(payload.get("model", "fake"))
    return render_response(dialect, reply, model=model, serial=serial, usage=estimate_usage(payload, reply))


def _events(
    received: Received, what: str | Reply | dict[str, Any], dialect: DialectName, serial: int
) -> Iterator[bytes]:
    options = received.payload.get("stream_options") or {}
    response = _response(received, what, dialect, serial)
    return render_stream(dialect, response, include_usage=bool(options.get("include_usage")))


def _side_value(path: str) -> dict[str, Any]:
    if (dialect := token_counter(path)) is not None:
        return dialect.count_answer(42)
    return {"object": "list", "data": [{"id": "fake", "object": "model", "created": 0, "owned_by": "seatrial"}]}
