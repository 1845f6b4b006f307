"""Google's other form of a stream: one JSON array that grows, for those who do not ask for server-sent events."""

from collections.abc import Coroutine
from typing import Any, Protocol

from seatrial.gateway.api import ModelRequest
from seatrial.gateway.dialects.google_paths import read_path
from seatrial.gateway.sse import SseReader


class _Way(Protocol):
    @property
    def begun(self) -> bool: ...

    async def begin(self, status: int, headers: dict[str, str]) -> None: ...

    async def write(self, data: bytes) -> None: ...

    async def answer(self, status: int, headers: dict[str, str], body: bytes) -> None: ...


def wants_array(request: ModelRequest) -> bool:
    """Whether an agent wants its stream as an array."""
    if request.dialect != "google" or not request.stream:
        return False
    path = read_path(request.path)
    return path is not None and not path.events


class ArrayWay:
    """The way back to such an agent. What is written to it are events; `end` closes the array."""

    def __init__(self, way: _Way) -> None:
        self._way = way
        self._reader = SseReader()
        self._between = b"["
        self._streams = False

    @property
    def begun(self) -> bool:
        """Whether the answer's status is out already."""
        return self._way.begun

    def begin(self, status: int, headers: dict[str, str]) -> Coroutine[Any, Any, None]:
        """Send status and headers."""
        self._streams = True
        return self._way.begin(status, {**headers, "content-type": "application/json; charset=utf-8"})

    async def write(self, data: bytes) -> None:
        """Send the events that these bytes finish."""
        for event in self._reader.feed(data):
            await self._way.write(self._between + event.data.encode())
            self._between = b",\r\n"

    def answer(self, status: int, headers: dict[str, str], body: bytes) -> Coroutine[Any, Any, None]:
        """Send an answer as a whole, which is none of a stream."""
        return self._way.answer(status, headers, body)

    async def end(self) -> None:
        """Nothing more is to come."""
        if self._streams:
            await self._way.write(b"[]" if self._between == b"[" else b"]")
