"""A streamed answer, passed on piece by piece, and put together beside it for the record."""

from typing import Protocol

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.api import DialectModule, StreamAssembler
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.sse import SseEvent, SseReader, encode_event
from seatrial.gateway.translate import StreamTranslator, Untranslatable

_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class _Way(Protocol):
    async def begin(self, status: int, headers: dict[str, str]) -> None: ...

    async def write(self, data: bytes) -> None: ...


async def pass_on_stream(
    request: ModelRequest,
    outgoing: ModelRequest,
    reply: ModelReply,
    way: _Way,
    notes: CallNotes,
    *,
    hides_usage: bool,
) -> None:
    """Pass a stream on as it comes, translated if need be. Raises ProviderError when it breaks off."""
    assert request.dialect is not None and outgoing.dialect is not None  # noqa: S101, PT018 - only calls are streamed
    spoken, heard = DIALECTS[outgoing.dialect], DIALECTS[request.dialect]
    assembler, reader = spoken.assembler(), SseReader()
    translator = StreamTranslator(outgoing.dialect, request.dialect) if outgoing.dialect != request.dialect else None
    passage = _Passage(way, translator, heard if hides_usage else None)
    await way.begin(reply.status, {**reply.headers, **_STREAM})
    try:
        async for chunk in reply.chunks:
            events = reader.feed(chunk)
            await passage.write(chunk, events)
            _note(assembler, events, notes)
        last = reader.close()
        await passage.end(last)
        _note(assembler, last, notes)
    except Untranslatable as error:
        raise ProviderError(f"the provider's answer cannot be translated: {error}") from error
    finally:
        notes.answered(reply.status, outgoing.dialect, assembler.response())
    _check_end(assembler)


class _Passage:
    """Writes a stream to the agent: byte by byte as it came, unless something has to be changed or left out."""

    def __init__(self, way: _Way, translator: StreamTranslator | None, hiding: DialectModule | None) -> None:
        self._way = way
        self._translator = translator
        self._hiding = hiding
        self._between_events = True

    async def write(self, chunk: bytes, events: list[SseEvent]) -> None:
        """Pass on a chunk, which finished these events."""
        if self._translator is None and (self._hiding is None or self._is_plain(chunk, events)):
            await self._way.write(chunk)
        else:
            await self._write_events(events)

    async def end(self, last: list[SseEvent]) -> None:
        """Pass on what the end of the stream finished."""
        if self._translator is not None or (self._hiding is not None and not self._between_events):
            await self._write_events(last)
        if self._translator is not None:
            await self._write_out(self._translator.close())

    def _is_plain(self, chunk: bytes, events: list[SseEvent]) -> bool:
        """Whether a chunk is whole events, none of which is hidden: of half an event nobody knows yet."""
        began, self._between_events = self._between_events, chunk.endswith((b"\n\n", b"\r\n\r\n"))
        return began and self._between_events and not any(map(self._hides, events))

    def _hides(self, event: SseEvent) -> bool:
        return self._hiding is not None and self._hiding.hides(event.data)

    async def _write_events(self, events: list[SseEvent]) -> None:
        if self._translator is not None:
            events = [out for event in events for out in self._translator.feed(event)]
        await self._write_out(events)

    async def _write_out(self, events: list[SseEvent]) -> None:
        if shown := [event for event in events if not self._hides(event)]:
            await self._way.write(b"".join(map(encode_event, shown)))


def _note(assembler: StreamAssembler, events: list[SseEvent], notes: CallNotes) -> None:
    for event in events:
        assembler.feed(event)
    if assembler.first_token:
        notes.token_came()


def _check_end(assembler: StreamAssembler) -> None:
    if assembler.error is not None:
        raise ProviderError(f"the provider broke off its answer: {assembler.error.message}")
    if not assembler.finished:
        raise ProviderError("the provider's answer was cut off in the middle")
