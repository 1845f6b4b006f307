"""What passes through the gateway: requests, answers on their way, and the Protocols of upstreams, where requests go.

Requests and answers are passed on as they are: what is understood of them is for the record and for limits, and nothing
that is not understood is lost. `Bodies` keeps the bodies of one trial's requests while they are under way.
"""

import errno
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from io import FileIO
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import orjson

from seatrial.gateway.base import PLAIN_TOOLS, AgentTools, Limits
from seatrial.model.trace import DialectName

_PIECE = 256 * 1024
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NO_ROOM = "there is no room on the gateway's disk for a request of this size; send a smaller one, or fewer at a time"


class ModelRequest(NamedTuple):
    """One request of an agent."""

    path: str
    method: str = "POST"
    dialect: DialectName | None = None
    """None on paths that are of no dialect."""
    payload: dict[str, Any] | None = None
    """Its JSON body, None when it has none."""
    body: bytes = b""
    headers: Mapping[str, str] = MappingProxyType({})
    stream: bool = False
    spooled: "Spooled | None" = None
    """A large body in a file. To an upstream that `takes_files` it comes without `body`, and its `payload` has only
    short values."""
    trial: int = 0
    """By which an upstream that several trials share can tell them apart."""
    agent_tools: AgentTools = PLAIN_TOOLS
    """How calls go back to the agent, in a translated request."""

    @property
    def model(self) -> str | None:
        """The model that it names."""
        name = (self.payload or {}).get("model")
        return name if isinstance(name, str) else None


class ModelReply(NamedTuple):
    """An answer on its way: its pieces come as they come from upstream."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]
    whole: bytes | None = None
    """All of it, if it is here already."""


class Upstream(Protocol):
    """Answers model requests in the dialects it speaks."""

    @property
    def dialects(self) -> frozenset[DialectName]:
        """The dialects it understands; requests in others are translated."""
        ...

    def ask(self, request: ModelRequest) -> AbstractAsyncContextManager[ModelReply]:
        """An answer for the length of a block. Raises ProviderError when there is none to be had."""
        ...


@runtime_checkable
class CompletesAbandonedCalls(Protocol):
    """An upstream whose answers mean something even when the agent no longer waits for them.

    Whether it would have spoken tells an agent that did not wait from a model that did not answer.
    """

    seen_through: bool


@runtime_checkable
class ReportsFailures(Protocol):
    """An upstream that can say why it has not answered yet."""

    def trouble(self, trial: int) -> str | None:
        """What went wrong with the latest attempt for a trial, None if nothing did."""
        ...


@runtime_checkable
class Answering(Protocol):
    """An upstream that can find out whether its model answers at all."""

    def is_stuck(self, trial: int) -> bool:
        """Whether a call of a trial has not got as far as its model's provider."""
        ...

    async def answers(self, request: ModelRequest) -> bool | None:
        """Whether its model answers a request, asked once; None if that cannot be tried. It may take without end."""
        ...


@runtime_checkable
class Keyed(Protocol):
    """An upstream that knows secrets."""

    secrets: Sequence[str]


@runtime_checkable
class AcceptsFiles(Protocol):
    """An upstream that sends large bodies from their files, so that nobody has to keep them in memory meanwhile."""

    takes_files: bool


@runtime_checkable
class PerTrial(Protocol):
    """An upstream that has a place in a file or a script, at which each trial starts anew."""

    def fresh(self) -> Upstream:
        """The same upstream from its beginning."""
        ...


def for_trial(upstream: Upstream) -> Upstream:
    """The upstream as one trial uses it."""
    return upstream.fresh() if isinstance(upstream, PerTrial) else upstream


# Bodies: small ones in memory and the others in files. A file has no name, so nothing of it outlives the call. What is
# read again from it is in memory only as long as it takes to look at it or to write it down, which waits for nothing:
# that is one request at a time, however many there are.


class BodyTooLargeError(Exception):
    """A request that is not taken; the message is for the agent."""


class SpoolError(Exception):
    """A body that we cannot keep: a folder that is gone, a disk that is broken. Never the agent's doing."""


class Content(Protocol):
    """A body as it comes in."""

    async def readany(self) -> bytes:
        """What is there, once something is."""
        ...

    def at_eof(self) -> bool:
        """Whether all of it was read."""
        ...


class Spooled:
    """A body in a file of its own, and others that came of it. Its trial gets the space back when it is closed."""

    __slots__ = ("_bodies", "_file", "_others", "fingerprint", "size")

    def __init__(self, bodies: "Bodies", file: FileIO) -> None:
        self._bodies = bodies
        self._file = file
        self._others: list[Spooled] = []
        self.size = 0
        self.fingerprint = 0

    def append(self, data: bytes | bytearray) -> None:
        """Write more of it. Raises TooLargeError when that is too much for the trial, or SpoolError."""
        self._bodies.check(self.size + len(data), len(data))
        try:
            written = self._file.write(data)
        except OSError as error:
            raise _not_kept(error) from error
        if written != len(data):
            raise BodyTooLargeError(_NO_ROOM)
        self.size += len(data)
        self._bodies.disk += len(data)

    def load(self) -> bytes:
        """All of it. Raises OSError."""
        self._file.seek(0)
        return self._file.read(self.size)

    async def pieces(self) -> AsyncIterator[bytes]:
        """All of it, piece by piece, from the start for each that asks."""
        descriptor, start = self._file.fileno(), 0
        while data := os.pread(descriptor, _PIECE, start):
            start += len(data)
            yield data

    def beside(self, data: bytes) -> "Spooled":
        """Another body, which is closed together with this one. Raises as `append` does."""
        other = self._bodies.new_file()
        self._others.append(other)
        other.append(data)
        return other

    def close(self) -> None:
        """Give the space back."""
        for other in self._others:
            other.close()
        self._bodies.disk -= self.size
        self._file.close()


class Held:
    """One request's body for the length of a `with` block: `data`, or `spooled` when it is in a file."""

    __slots__ = ("_bodies", "_size", "data", "spooled")

    def __init__(self, bodies: "Bodies", data: bytes, spooled: Spooled | None = None) -> None:
        self._bodies = bodies
        self._size = len(data)
        self.data = data
        self.spooled = spooled

    def __enter__(self) -> Self:
        self._bodies.memory += self._size
        return self

    def __exit__(self, *_: object) -> None:
        self._bodies.memory -= self._size
        if self.spooled is not None:
            self.spooled.close()


class HttpAnswer:
    """An answer on its way to the agent, for the length of a `with` block."""

    __slots__ = ("_bodies", "_data", "_size")

    def __init__(self, bodies: "Bodies") -> None:
        self._bodies = bodies
        self._data = bytearray()
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bodies.answers -= self._size

    def add(self, chunk: bytes) -> None:
        """Take more of it. Raises TooLargeError."""
        self.count(len(chunk))
        self._data += chunk

    def count(self, size: int) -> None:
        """More of it is kept elsewhere. Raises TooLargeError."""
        self._bodies.check_answers(size)
        self._size += size
        self._bodies.answers += size

    def whole(self) -> bytes:
        """All that came."""
        return bytes(self._data)


class Bodies:
    """What the requests of one trial take up; no other trial's count here."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._small = min(limits.small_bytes, limits.body_bytes)
        self._most = limits.memory_bytes
        self.memory = 0
        self.disk = 0
        self.answers = 0
        """Bytes of whole answers that wait for the agent."""

    def fits(self, size: int) -> bool:
        """Whether a body of this size may be kept in memory."""
        return size <= self._small and self.memory + size <= self._most

    def check(self, size: int, more: int = 0) -> None:
        """Whether a body may have this size, and the trial `more` on disk. Raises TooLargeError."""
        most = self._limits
        if size > most.body_bytes:
            raise BodyTooLargeError(f"the request is larger than {most.body_bytes:,} bytes")
        if self.disk + more > most.disk_bytes:
            raise BodyTooLargeError(
                f"the requests under way have more than {most.disk_bytes:,} bytes together; send fewer at a time"
            )

    def check_answers(self, more: int) -> None:
        """Whether so much more may wait for the agent to read it. Raises TooLargeError."""
        if self.answers + more > self._limits.answer_bytes:
            raise BodyTooLargeError(
                f"the answers under way are larger than {self._limits.answer_bytes:,} bytes together; ask for less"
            )

    async def collect(self, content: Content, first: bytes) -> Held:
        """A body whose first piece is here. Raises TooLargeError, SpoolError, and what `content` raises."""
        kept = bytearray()
        more = first
        try:
            while self.memory + len(more) <= self._most and len(kept) + len(more) <= self._small:
                kept += more
                self.memory += len(more)
                if content.at_eof():
                    return Held(self, bytes(kept))
                more = await content.readany()
        finally:
            self.memory -= len(kept)
        kept += more
        return Held(self, b"", await self._spool(content, kept))

    def new_file(self) -> Spooled:
        """An empty file. Raises TooLargeError when there is no room for it, or SpoolError."""
        try:
            return Spooled(self, tempfile.TemporaryFile("w+b", buffering=0, dir=self._limits.spool))
        except OSError as error:
            raise _not_kept(error) from error

    async def _spool(self, content: Content, begun: bytearray) -> Spooled:
        file = self.new_file()
        try:
            file.append(begun)
            begun.clear()
            while not content.at_eof():
                file.append(await content.readany())
        except BaseException:
            file.close()
            raise
        return file


def is_nested_too_deeply(body: bytes) -> bool:
    """Whether a body cannot be read only because of how deeply it is nested."""
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return str(error).startswith("depth limit")
    return False


def _not_kept(error: OSError) -> BodyTooLargeError | SpoolError:
    # Agents can fill a disk with what they send. Where the machine itself is short of it, its watch says so.
    if error.errno in _FULL:
        return BodyTooLargeError(_NO_ROOM)
    return SpoolError(f"a large request cannot be kept: {error}")
