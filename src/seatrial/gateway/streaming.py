"""A streamed answer, passed on piece by piece, and put together beside it for the record."""

import contextlib

from seatrial.errors import ProviderError
from seatrial.gateway.api import HttpAnswer, ModelReply, ModelRequest
from seatrial.gateway.base import SseEvent, SseReader, encode_event, parse_events
from seatrial.gateway.dialects import DIALECTS
from seatrial.gateway.dialects.base import Dialect, StreamAssembler
from seatrial.gateway.neutral.types import Untranslatable
from seatrial.gateway.notes import CallNotes
from seatrial.gateway.routes import Responder
from seatrial.gateway.translate import StreamTranslator

_BATCH_BYTES = 16 * 1024
_ENDS = (b"\n\n", b"\r\n\r\n")
_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


async def pass_on_stream(
    request: ModelRequest,
    outgoing: ModelRequest,
    reply: ModelReply,
    responder: Responder,
    notes: CallNotes,
    answer: HttpAnswer,
) -> None:
    """Pass a stream on as it comes, translated if need be. Raises ProviderError when it breaks off, and
    BodyTooLargeError when the answers under way get too large: what it amounts to is kept in memory.

    A count of tokens that the agent did not ask for is kept from it.
    """
    assert request.dialect is not None and outgoing.dialect is not None  # noqa: S101, PT018 - only calls are streamed
    spoken, heard = DIALECTS[outgoing.dialect], DIALECTS[request.dialect]
    record = _Record(spoken.assembler(), notes)
    foreign = outgoing.dialect != request.dialect
    translator = StreamTranslator(outgoing.dialect, request.dialect, outgoing.agent_tools) if foreign else None
    hiding = heard if _hides_usage(request) else None
    passage = _Passage(responder, translator, hiding) if translator or hiding else None
    await _begin(reply, responder, notes)
    # Each line of the loop is paid for with every token, and by a processor that has been elsewhere meanwhile.
    write, later, size, enough = responder.write, record.later, 0, 0
    is_keep_alive, word_came = KeepAlives().is_one, notes.wait.heard
    notes.is_complete = record.is_complete
    try:
        async for chunk in reply.chunks:
            if is_keep_alive(chunk):
                notes.still_waiting()
                if notes.wait.left_at is not None:  # only a word tells whether the model would have answered
                    continue
            else:
                word_came()
            if passage is None or passage.is_plain(chunk):
                await write(chunk)
                later.append(chunk)
                size += len(chunk)
                if size > enough:
                    answer.count(size)
                    size, enough = 0, record.catch_up()
            else:
                answer.count(len(chunk))
                await passage.write(record.read(chunk))
        last = record.close()
        if passage is not None:
            await passage.end(last)
    except Untranslatable as error:
        raise ProviderError(f"the provider's answer cannot be translated: {error}") from error
    finally:
        with contextlib.suppress(ProviderError):
            record.catch_up()
        notes.answered(reply.status, outgoing.dialect, record.assembler.response())
        notes.fault = _fault(record.assembler)
        notes.finished = record.assembler.finished
        notes.is_complete = _ended  # they hold each other, and circles take long to be found
    _check_end(record.assembler)


async def _begin(reply: ModelReply, responder: Responder, notes: CallNotes) -> None:
    if notes.wait.left_at is not None:
        await _first_word(reply, notes)
        raise ConnectionResetError("the agent hung up before the answer began")
    await responder.begin(reply.status, {**reply.headers, **_STREAM})


async def _first_word(reply: ModelReply, notes: CallNotes) -> None:
    """Wait for the model to speak, when there is nobody to pass its keep-alives on to."""
    is_keep_alive = KeepAlives().is_one
    async for chunk in reply.chunks:
        if not is_keep_alive(chunk):
            notes.wait.heard()
            return
        notes.still_waiting()


def _hides_usage(request: ModelRequest) -> bool:
    assert request.dialect is not None and request.payload is not None  # noqa: S101, PT018 - as above
    return DIALECTS[request.dialect].with_usage(request.payload) is not request.payload


class _Record:
    """What a stream amounts to, put together beside it.

    Once its first token has come nobody waits for that, so it is done many chunks at a time, at half the cost.
    """

    def __init__(self, assembler: StreamAssembler, notes: CallNotes) -> None:
        self.assembler = assembler
        self._notes = notes
        self.later: list[bytes] = []
        self._reader = SseReader()

    def read(self, chunk: bytes) -> list[SseEvent]:
        """Take a chunk now; returns the events that it finishes."""
        self.catch_up()
        return self._take(self._reader.feed(chunk))

    def close(self) -> list[SseEvent]:
        """Take what is left; returns the event that the stream ended in, if it did."""
        self.catch_up()
        return self._take(self._reader.close())

    def catch_up(self) -> int:
        """Take what was put off for `later`; returns how many bytes may be put off from now on.

        Raises ProviderError for an event that is too large.
        """
        if self.later:
            whole = self._reader.whole(b"".join(self.later))
            self.later.clear()
            if not self.assembler.skim(whole):
                self._take(parse_events(whole))
        return _BATCH_BYTES if self.assembler.first_token else 0

    def is_complete(self) -> bool:
        """Whether nothing is to come any more that matters: the answer has come to its end, or to grief."""
        with contextlib.suppress(ProviderError):
            self.catch_up()
        return self.assembler.finished or _fault(self.assembler) is not None

    def _take(self, events: list[SseEvent]) -> list[SseEvent]:
        for event in events:
            self.assembler.feed(event)
        if self.assembler.first_token:
            self._notes.token_came()
        return events


class _Passage:
    """Writes a stream to the agent in which something has to be changed or left out, the rest byte by byte."""

    def __init__(self, responder: Responder, translator: StreamTranslator | None, hiding: Dialect | None) -> None:
        self._responder = responder
        self._translator = translator
        self._hiding = hiding
        self._may_hide = hiding.may_hide if hiding is not None and translator is None else _always
        self._between_events = True

    def is_plain(self, chunk: bytes) -> bool:
        """Whether a chunk is passed on as it is. Of half an event nobody knows yet whether it is to be hidden."""
        if self._between_events and chunk.endswith(_ENDS):
            return not self._may_hide(chunk)
        self._between_events = chunk.endswith(_ENDS)
        return False

    async def write(self, events: list[SseEvent]) -> None:
        if self._translator is not None:
            events = [out for event in events for out in self._translator.feed(event)]
        await self._write_out(events)

    async def end(self, last: list[SseEvent]) -> None:
        if self._translator is not None or (self._hiding is not None and not self._between_events):
            await self.write(last)
        if self._translator is not None:
            await self._write_out(self._translator.close())

    def _hides(self, event: SseEvent) -> bool:
        return self._hiding is not None and self._hiding.hides(event.data)

    async def _write_out(self, events: list[SseEvent]) -> None:
        if shown := [event for event in events if not self._hides(event)]:
            await self._responder.write(b"".join(map(encode_event, shown)))


def _always(chunk: bytes) -> bool:
    return True


def _check_end(assembler: StreamAssembler) -> None:
    fault = _fault(assembler)
    if fault is None and not assembler.finished:
        fault = "the provider's answer was cut off in the middle"
    if fault is not None:
        raise ProviderError(fault)


def _fault(assembler: StreamAssembler) -> str | None:
    """What is wrong with a stream, whether or not it has come to its end."""
    if assembler.error is not None:
        return f"the provider broke off its answer: {assembler.error.message}"
    if assembler.garbled is not None:
        return f"the provider's stream has an event that is no JSON object: {assembler.garbled!a}"
    return None


def _ended() -> bool:
    return True


# Keep-alives: bytes that a provider sends so that nobody hangs up, and that are nothing of an answer: comments and
# blank lines (OpenRouter, DeepSeek), `ping` events (Anthropic), `keepalive` events (OpenAI).

_BEGINNINGS = (b":", b"\n", b"\r", b"event: ping", b"event:ping", b"event: keepalive", b'data: {"type"')
_LINES = (b"event: ping", b"event:ping", b"event: keepalive", b"event:keepalive")
_DATA = (b'"type":"ping"', b'"type":"keepalive"')
_LONGEST = 4096


class KeepAlives:
    """Tells the chunks of one stream that are only keep-alives from the others, however they are cut."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        self._begun = b""  # a line without its end so far, if it may be one of them

    def is_one(self, chunk: bytes) -> bool:
        """Whether nothing of an answer has come with this chunk."""
        # Nearly every chunk of a stream ends here.
        if not self._begun and not chunk.startswith(_BEGINNINGS):
            return False
        *lines, rest = (self._begun + chunk).replace(b"\r", b"\n").split(b"\n")
        only = all(map(_is_keep_alive, lines)) and (_is_keep_alive(rest) or _may_become_one(rest))
        self._begun = rest if only and len(rest) < _LONGEST else b""
        return only


def _is_keep_alive(line: bytes) -> bool:
    if not line or line.startswith(b":") or line in _LINES:
        return True
    return line.startswith(b"data:") and len(line) < _LONGEST and any(kind in line.replace(b" ", b"") for kind in _DATA)


def _may_become_one(line: bytes) -> bool:
    return any(known.startswith(line) for known in _LINES) or (b"data:".startswith(line) and len(line) < len(b"data:"))
