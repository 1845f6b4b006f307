"""A gateway to talk to: a session served on loopback, and the official SDKs as its clients."""

import datetime as dt
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from seatrial.gateway.api import ModelReply, ModelRequest, Upstream
from seatrial.gateway.base import Limits
from seatrial.gateway.calls import CALLS_FILE, CallLog, read_calls
from seatrial.gateway.prices import ModelPrice, PriceTable
from seatrial.gateway.server import listening_socket, serve
from seatrial.gateway.session import Session, SessionOptions
from seatrial.model.trace import DialectName, ModelCall
from seatrial.testing.fake_provider import FakeProvider, Step
from tests.gateway.upstream_calls import provider

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
PRICES = PriceTable(noted=dt.date(2026, 1, 1), models={"m": ModelPrice(input=1.0, output=2.0)})


@dataclass(frozen=True)
class Gateway:
    """A session that is being served."""

    session: Session
    url: str
    folder: Path

    @property
    def calls(self) -> list[ModelCall]:
        """What was written down, in the order in which the calls began."""
        path = self.folder / CALLS_FILE
        return sorted(read_calls(path) if path.exists() else [], key=lambda call: call.index)

    @property
    def auth(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.session.key}"}

    def openai(self, **options: Any) -> OpenAI:
        http = httpx2.Client(verify=False)  # nothing is verified in plain HTTP, and certificates take long to load
        return OpenAI(base_url=f"{self.url}/v1", api_key=self.session.key, http_client=http, **options)

    def anthropic(self, **options: Any) -> Anthropic:
        http = httpx2.Client(verify=False)
        return Anthropic(base_url=self.url, api_key=self.session.key, http_client=http, **options)

    def async_openai(self, **options: Any) -> AsyncOpenAI:
        http = httpx2.AsyncClient(verify=False)
        return AsyncOpenAI(base_url=f"{self.url}/v1", api_key=self.session.key, http_client=http, **options)

    def async_anthropic(self, **options: Any) -> AsyncAnthropic:
        http = httpx2.AsyncClient(verify=False)
        return AsyncAnthropic(base_url=self.url, api_key=self.session.key, http_client=http, **options)

    @asynccontextmanager
    async def plain(self) -> AsyncIterator[aiohttp.ClientSession]:
        """A client that sends what it is told and nothing else."""
        async with aiohttp.ClientSession(self.url, headers=self.auth) as client:
            yield client


class Pieces:
    """An upstream that streams these bytes of chat completions, cut as they are."""

    dialects: frozenset[DialectName] = frozenset({"openai_chat"})

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    @asynccontextmanager
    async def ask(self, _: ModelRequest) -> AsyncIterator[ModelReply]:
        async def chunks() -> AsyncIterator[bytes]:
            for piece in self._pieces:
                yield piece

        yield ModelReply(200, {"content-type": "text/event-stream"}, chunks())


async def post(gateway: Gateway, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Status and body of the answer to exactly these bytes."""
    async with (
        gateway.plain() as client,
        client.post(path, data=body, headers={"content-type": "application/json", **headers}) as response,
    ):
        return response.status, await response.read()


@asynccontextmanager
async def open_gateway(
    upstream: Upstream, folder: Path, *, limits: Limits | None = None, **options: Any
) -> AsyncIterator[Gateway]:
    """A gateway in front of an upstream; `options` are those of a session."""
    with CallLog(folder) as log:
        session = Session(upstream, log, SessionOptions(**options), PRICES, limits or Limits(spool=folder))
        async with serve(session, listening_socket()) as port:
            yield Gateway(session, f"http://127.0.0.1:{port}", folder)


@asynccontextmanager
async def gateway_to(
    folder: Path,
    *script: Step,
    speaks: DialectName | None = None,
    upstream: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[tuple[Gateway, FakeProvider]]:
    """A gateway in front of a provider that follows a script, and that provider; `speaks` is its only dialect."""
    settings = {"dialects": frozenset({speaks})} if speaks else {}
    async with (
        provider(*script, **{"retries": 0, **settings, **(upstream or {})}) as (passed_on, fake),
        open_gateway(passed_on, folder, **options) as gateway,
    ):
        yield gateway, fake
