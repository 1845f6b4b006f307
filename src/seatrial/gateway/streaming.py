"""A streamed answer, passed on piece by piece, and put together beside it for the record."""

from typing import Protocol

from seatrial.errors import ProviderError
from seatrial.gateway.api import ModelReply, ModelRequest
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.api import DialectModule, StreamAssembler
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.sse import SseEvent, SseReader, encode_event
from seatrial.gateway.translate import StreamTranslator

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
    spoken = DIALECTS[outgoing.dialect]
    assembler, reader = spoken.assembler(), SseReader()
    translator = StreamTranslator(outgoing.dialect, request.dialect) if outgoing.dialect != request.dialect else None
    await way.begin(reply.status, {**reply.headers, **_STREAM})
    try:
        async for chunk in reply.chunks:
            events = reader.feed(chunk)
            if translator is not None:
                await _write_all(way, [out for event in events for out in translator.feed(event)])
            elif hides_usage and any(spoken.hides(event.data) for event in events):
                await _write_all(way, [event for event in events if not spoken.hides(event.data)])
            else:
                await way.write(chunk)
            _note(assembler, events, notes)
        if translator is not None:
            await _write_all(way, translator.close())
        _note(assembler, reader.close(), notes)
    finally:
        notes.answered(reply.status, outgoing.dialect, assembler.response())
    _check_end(assembler, spoken)


async def _write_all(way: _Way, events: list[SseEvent]) -> None:
    if events:
        await way.write(b"".join(map(encode_event, events)))


def _note(assembler: StreamAssembler, events: list[SseEvent], notes: CallNotes) -> None:
    for event in events:
        assembler.feed(event)
    if assembler.first_token:
        notes.token_came()


def _check_end(assembler: StreamAssembler, _: DialectModule) -> None:
    if assembler.error is not None:
        raise ProviderError(f"the provider broke off its answer: {assembler.error.message}")
    if not assembler.finished:
        raise ProviderError("the provider's answer was cut off in the middle")
