"""CachedUpstream: an upstream that is asked each thing once. Opt-in: two trials that ask the same get the same answer.

An answer is one file, named by the hash of its request, in a folder that several processes may share: files appear
whole or not at all, and whoever comes second writes the same again.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self

import orjson

from seatrial.errors import ProviderError, StoreError, UsageError
from seatrial.gateway.api import Answering, Keyed, ModelReply, ModelRequest, ReportsFailures, Upstream, for_trial
from seatrial.gateway.base import SseReader
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.upstreams.replay import essential, essential_path, fingerprint
from seatrial.gateway.upstreams.replies import answer
from seatrial.model.trace import DialectName
from seatrial.untrusted.json import parse_object

_MOST_KEPT_BYTES = 64 * 1024 * 1024


class CachedUpstream:
    """Wraps another upstream. `scope` keeps apart what different upstreams say to the same request.

    `async with` opens the upstream behind as well; it is not needed around one that is open already.
    """

    def __init__(self, inner: Upstream, folder: Path, scope: str = "") -> None:
        self._inner = inner
        self._folder = folder
        self._scope = scope
        self._stack = AsyncExitStack()
        self.secrets: Sequence[str] = inner.secrets if isinstance(inner, Keyed) else ()

    @property
    def dialects(self) -> frozenset[DialectName]:
        return self._inner.dialects

    def fresh(self) -> "CachedUpstream":
        """For another trial: the same folder before a fresh start of what is behind, if that has one."""
        return CachedUpstream(for_trial(self._inner), self._folder, self._scope)

    def is_stuck(self, trial: int) -> bool:
        """Whether a call has not got as far as the upstream behind."""
        return isinstance(self._inner, Answering) and self._inner.is_stuck(trial)

    async def answers(self, request: ModelRequest) -> bool | None:
        return await self._inner.answers(request) if isinstance(self._inner, Answering) else None

    def trouble(self, trial: int) -> str | None:
        return self._inner.trouble(trial) if isinstance(self._inner, ReportsFailures) else None

    async def __aenter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"answers cannot be kept in {self._folder}: {error}") from error
        if isinstance(self._inner, AbstractAsyncContextManager):
            await self._stack.enter_async_context(self._inner)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def ask(self, request: ModelRequest) -> AsyncIterator[ModelReply]:
        """The kept answer, or that of the upstream behind, which is kept once it is complete and no error."""
        if request.dialect is None or request.payload is None:
            async with self._inner.ask(request) as reply:
                yield reply
            return
        path = self._path(request)
        kept = await asyncio.to_thread(_load, path)
        if kept is not None:
            yield answer(request, kept)
            return
        async with self._inner.ask(request) as reply:
            if reply.status == 200:
                yield ModelReply(reply.status, reply.headers, _keeping(reply, request.dialect, path))
            else:
                yield reply

    def _path(self, request: ModelRequest) -> Path:
        path = essential_path(request.dialect, request.path)
        name = fingerprint(self._scope, request.dialect, path, essential(request.payload))
        return self._folder / name[:2] / f"{name}.json"


async def _keeping(reply: ModelReply, dialect: DialectName, path: Path) -> AsyncIterator[bytes]:
    chunks: list[bytes] = []
    size = 0
    async for chunk in reply.chunks:
        size += len(chunk)
        if size <= _MOST_KEPT_BYTES:
            chunks.append(chunk)
        yield chunk
    if size <= _MOST_KEPT_BYTES:
        is_stream = reply.headers.get("content-type", "").startswith("text/event-stream")
        response = _assembled(dialect, chunks) if is_stream else parse_object(b"".join(chunks))
        if response is not None and response.get("error") is None and DIALECTS[dialect].holds_answer(response):
            await asyncio.to_thread(_save, path, response)


def _assembled(dialect: DialectName, chunks: list[bytes]) -> dict[str, Any] | None:
    """The answer a stream amounts to; None unless it came to its proper end without an error."""
    reader, assembler = SseReader(), DIALECTS[dialect].assembler()
    try:
        for chunk in chunks:
            for event in reader.feed(chunk):
                assembler.feed(event)
    except ProviderError:
        return None
    for event in reader.close():
        assembler.feed(event)
    return assembler.response() if assembler.finished and assembler.error is None else None


def _load(path: Path) -> dict[str, Any] | None:
    try:
        return parse_object(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"the kept answer {path} cannot be read: {error}") from error


def _save(path: Path, response: dict[str, Any]) -> None:
    """Write next to the place and move there, so that nobody ever reads half an answer."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(orjson.dumps(response))
            Path(temporary).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise
    except OSError as error:
        raise StoreError(f"the answer {path} cannot be kept: {error}") from error
