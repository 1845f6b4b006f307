"""What all parts of the gateway build on: server-sent events, calls as they are logged, and a trial's limits.

SseReader takes bytes in any pieces a network gives. It runs for every chunk of every stream, so the usual case, whole
events of one or two lines, takes a short way through it. An EndedCall is a call on its way into calls.jsonl, and
`as_line` the line that becomes of it.
"""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import orjson

from seatrial.errors import ProviderError
from seatrial.model.base import MAX_JSON_DEPTH
from seatrial.model.trace import CallErrorKind, DialectName, EndedBy, ModelCall
from seatrial.untrusted.json import is_too_deep

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


# Calls that have ended, on their way into calls.jsonl. What is written is checked when it is read, by ModelCall: here
# it is JSON that a parser has just read, and nothing that a parser reads is refused by the next one, unless it is
# nested too deeply.

_CONTENT = ("messages", "request", "response")
_NOT_KEPT = {"not_kept": f"nested deeper than {MAX_JSON_DEPTH} levels"}
_FORMAT = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


class TokenCounts(TypedDict):
    """What one call consumed; the fields are those of TokenUsage."""

    input_tokens: int
    cached_tokens: int
    cache_write_tokens: NotRequired[int]
    cache_write_1h_tokens: NotRequired[int]
    output_tokens: int
    reasoning_tokens: int


class ToldReason(TypedDict):
    """Why a call gave no answer; the fields are those of CallError."""

    kind: CallErrorKind
    status: NotRequired[int]
    message: str
    ended_by: NotRequired[EndedBy]
    silent_sec: NotRequired[float]


class EndedCall(TypedDict):
    """A call with all its messages; the fields are those of ModelCall, and what is None there is absent here.

    Plain values, for there is one with every call: to make a checked one takes longer than to write it down.
    """

    index: int
    dialect: NotRequired[DialectName]
    method: NotRequired[str]
    path: str
    started_at: dt.datetime
    duration_sec: float
    first_token_sec: NotRequired[float]
    stream: bool
    model: NotRequired[str]
    upstream_model: NotRequired[str]
    messages: list[Any]
    request: NotRequired[dict[str, Any]]
    response: NotRequired[dict[str, Any]]
    status: NotRequired[int]
    finish_reason: NotRequired[str]
    usage: NotRequired[TokenCounts]
    cost_usd: NotRequired[float]
    retry_of: NotRequired[int]
    omitted: NotRequired[tuple[str, ...]]
    error: NotRequired[ToldReason]


def checked(call: EndedCall) -> ModelCall:
    """The same as a ModelCall, without what is nested too deeply."""
    values: dict[str, Any] = dict(call)
    deep = [name for name in ("request", "response") if is_too_deep(values.get(name))]
    return ModelCall(**{**values, **dict.fromkeys(deep, _NOT_KEPT)})


def line_values(call: EndedCall | ModelCall) -> dict[str, Any]:
    """What there is to write of a call."""
    if not isinstance(call, ModelCall):
        return {**call}
    values = {name: value for name, value in dict(call).items() if value is not None and value != ()}
    for name in values.keys() & {"usage", "error"}:
        values[name] = values[name].model_dump(exclude_none=True, exclude_unset=name == "usage")
    for name in ("known_parts", "marks"):  # found again when it is written
        del values[name]
    return values


def as_line(values: dict[str, Any]) -> bytes:
    """The line of these values. What is nested too deeply to be read again is taken out of them."""
    try:
        line = orjson.dumps(values, option=_FORMAT)
        # What has no more brackets than that has no more levels either: true of most calls, and quickly seen.
        if line.count(b"{") + line.count(b"[") <= MAX_JSON_DEPTH:
            return line
    except TypeError:  # nested too deeply even to be written
        line = b""
    deep = [name for name in _CONTENT if is_too_deep(values.get(name))]
    if line and not deep:
        return line
    values.update(dict.fromkeys(deep, _NOT_KEPT))
    if "messages" in deep:
        del values["messages"]
        values.pop("known", None)
    if "request" in deep:
        values.pop("known_parts", None)
    if deep != ["response"]:
        values.pop("marks", None)
    return orjson.dumps(values, option=_FORMAT)


@dataclass(frozen=True, slots=True)
class CallTally:
    """What came of the requests of one trial: whether its agent ever reached its model."""

    requests: int = 0
    """Calls, and requests that were refused before they could be one; lists of models and the like do not count."""
    answered: int = 0
    """Calls that a model has answered."""
    refused_by_us: int = 0
    """Calls that never reached it, though no limit of the run was hit: a wrong key, an unknown path, a field that
    cannot be translated."""
    last_refusal: str | None = None
    """What the agent was told."""


# Names of tools, where the agent has others than the model that speaks another dialect.


class KnownAs(NamedTuple):
    """What an agent calls a tool: its name, in a namespace or in none. It may want plain text for its argument."""

    name: str
    namespace: str | None = None
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class AgentTools:
    """Tools by the names under which the model was offered them. Those that are not here are known as they are."""

    known: Mapping[str, KnownAs] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.known)


PLAIN_TOOLS = AgentTools()


# How much of the harness one trial's agent may take up. It is a stranger, and others are served beside it: nothing here
# is shared between trials, so that no trial can use up what another one needs.

MiB = 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """What one listener grants. Bodies over `small_bytes`, or beyond `memory_bytes` together, are kept in `spool`.

    `spool` is a folder; None is the system's folder for temporary files.
    """

    connections: int = 512
    idle_sec: float = 300.0
    """How long a connection may wait before the head of its next request is there."""
    body_sec: float = 300.0
    """How long the rest of a request may take."""
    stalled_sec: float = 120.0
    """How long an agent may leave an answer unread."""
    keep_alive_sec: float = 1800.0
    """How long a provider may send nothing but keep-alives."""
    evicted_after_sec: float = 1.0
    """How long a connection was idle at least before it has to make room for another one."""
    starved_sec: float = 10.0
    """How long this process may lack descriptors before the trial counts as failed by us."""
    body_bytes: int = 64 * MiB
    small_bytes: int = 1 * MiB
    memory_bytes: int = 8 * MiB
    disk_bytes: int = 512 * MiB
    answer_bytes: int = 128 * MiB
    """How much answers under way may have together: whole ones that wait for the agent, streams as they are noted."""
    spool: Path | None = None
