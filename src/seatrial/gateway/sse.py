"""Server-sent events: how streamed answers are cut into events, and how events are written.

The reader takes bytes in any pieces a network gives. It runs for every chunk of every stream, so the usual case, whole
events of one or two lines, takes a short way through it.
"""

from typing import NamedTuple

from seatrial.errors import ProviderError

MAX_EVENT_BYTES = 64 * 1024 * 1024
"""An event that is not finished after so many bytes is no event of a model."""

_BOM = b"\xef\xbb\xbf"


class SseEvent(NamedTuple):
    """One event. `event` is its name, None when it has none."""

    event: str | None
    data: str


class SseReader:
    """Turns the bytes of one stream into its events. `id` and `retry` fields and comments are dropped."""

    __slots__ = ("_after_cr", "_at_start", "_limit", "_pieces", "_size")

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []  # of the event that is not finished yet, with LF line ends
        self._size = 0
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` finishes. Raises ProviderError when an event outgrows the limit."""
        return parse_events(self.whole(chunk))

    def whole(self, chunk: bytes) -> str:
        """The same as text, for `parse_events`: with LF line ends, and without the blank line after the last one."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_lf(chunk)
        if self._at_start:
            chunk = self._without_bom(chunk)
        if not chunk:
            return ""
        pieces = self._pieces
        if b"\n\n" not in chunk and not (chunk[0] == 10 and pieces and pieces[-1][-1] == 10):
            # Kept as pieces and joined once: a large event in many chunks would be copied over and over otherwise.
            self._keep(chunk)
            return ""
        if pieces:
            chunk = b"".join((*pieces, chunk))
            self._pieces = []
            self._size = 0
        whole, _, rest = chunk.rpartition(b"\n\n")
        if rest:
            self._keep(rest)
        return str(whole, "utf-8", "replace")

    def close(self) -> list[SseEvent]:
        """The event that the stream ended in without a blank line: whole or cut, as the SDKs see it too."""
        block = str(b"".join(self._pieces), "utf-8", "replace")
        self._pieces = []
        self._size = 0
        event = _parse(block)
        return [] if event is None else [event]

    def _keep(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            raise ProviderError(f"an event of the stream is larger than {self._limit:,} bytes")

    def _with_lf(self, chunk: bytes) -> bytes:
        if not chunk:
            return chunk
        if self._after_cr and chunk[0] == 10:  # the second half of a CRLF whose CR already ended the line
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _without_bom(self, chunk: bytes) -> bytes:
        start = b"".join((*self._pieces, chunk))
        if len(start) < len(_BOM) and _BOM.startswith(start):
            self._pieces = [start] if start else []
            return b""
        self._at_start = False
        self._pieces = []
        return start.removeprefix(_BOM)


def parse_events(whole: str) -> list[SseEvent]:
    """The events of a text that ends where one of them does."""
    return [event for block in whole.split("\n\n") if (event := _parse(block))]


def encode_event(event: SseEvent) -> bytes:
    """The bytes of one event. Line ends in its data become LF."""
    name = f"event: {event.event}\n" if event.event else ""
    data = event.data
    if "\n" in data or "\r" in data:
        data = data.replace("\r\n", "\n").replace("\r", "\n").replace("\n", "\ndata: ")
    return f"{name}data: {data}\n\n".encode()


def _parse(block: str) -> SseEvent | None:
    if block.startswith("data: ") and "\n" not in block:
        return SseEvent(None, block[6:])
    name: str | None = None
    data: list[str] = []
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        if field == "data":
            data.append(value.removeprefix(" "))
        elif field == "event":
            name = value.removeprefix(" ") or None
    return SseEvent(name, "\n".join(data)) if data else None
