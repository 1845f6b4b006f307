"""Answers of every dialect: read into neutral words, written from them, and cut into streams.

Reading is lenient where requests are strict: extra fields of an answer stay in the record of the call, and an answer
that was paid for is not thrown away for them. Only content that has no neutral word is refused.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from seatrial.gateway.dialects import usage_of
from seatrial.gateway.dialects.api import Payload
from seatrial.gateway.dialects.fields import count, text
from seatrial.gateway.neutral import (
    anthropic_reader,
    anthropic_writer,
    google_reader,
    google_writer,
    openai_chat_reader,
    openai_chat_writer,
    openai_responses_reader,
    openai_responses_writer,
)
from seatrial.gateway.neutral.checks import need_table, seconds
from seatrial.gateway.neutral.types import Answer, Delta, Item, Stop
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import Dialect


class StreamReader(Protocol):
    """Reads one stream."""

    def read(self, event: SseEvent) -> list[Delta]:
        """What an event says. Raises Untranslatable for content without a neutral word."""
        ...

    def close(self) -> list[Delta]:
        """What is still to be said when the stream is over; nothing when it was cut."""
        ...


class StreamWriter(Protocol):
    """Writes one stream."""

    def write(self, delta: Delta) -> list[SseEvent]:
        """The events that say `delta`."""
        ...


class _ReaderModule(Protocol):
    def read_content(self, response: Payload) -> tuple[list[Item], Stop]: ...


class _WriterModule(Protocol):
    def write_answer(self, answer: Answer) -> Payload: ...

    def split_answer(self, response: Mapping[str, Any], *, include_usage: bool) -> Iterator[SseEvent]: ...


_READERS: dict[Dialect, _ReaderModule] = {
    "openai_chat": openai_chat_reader,
    "openai_responses": openai_responses_reader,
    "anthropic": anthropic_reader,
    "google": google_reader,
}
_WRITERS: dict[Dialect, _WriterModule] = {
    "openai_chat": openai_chat_writer,
    "openai_responses": openai_responses_writer,
    "anthropic": anthropic_writer,
    "google": google_writer,
}
STREAM_READERS: dict[Dialect, type[StreamReader]] = {
    "openai_chat": openai_chat_reader.ChatReader,
    "openai_responses": openai_responses_reader.ResponsesReader,
    "anthropic": anthropic_reader.AnthropicReader,
    "google": google_reader.GoogleReader,
}
STREAM_WRITERS: dict[Dialect, type[StreamWriter]] = {
    "openai_chat": openai_chat_writer.ChatWriter,
    "openai_responses": openai_responses_writer.ResponsesWriter,
    "anthropic": anthropic_writer.AnthropicWriter,
    "google": google_writer.GoogleWriter,
}


def read_answer(response: Payload, dialect: Dialect) -> Answer:
    """The answer in neutral words. Raises Untranslatable."""
    found = need_table(response, "response")
    said, stop = _READERS[dialect].read_content(found)
    return Answer(
        id=text(found.get("id")) or text(found.get("responseId")) or "",
        model=text(found.get("model")) or text(found.get("modelVersion")) or "",
        items=tuple(said),
        stop=stop,
        usage=usage_of(dialect, found),
        created=count(found.get("created")) or seconds(found.get("created_at")),
    )


def write_answer(answer: Answer, dialect: Dialect) -> Payload:
    """The answer in this dialect. Raises Untranslatable."""
    return _WRITERS[dialect].write_answer(answer)


def split_answer(response: Mapping[str, Any], dialect: Dialect, *, include_usage: bool) -> Iterator[SseEvent]:
    """The events in which a whole answer would have come. Nothing of it is lost, whether it has a neutral word or not.

    Raises a LookupError, TypeError or AttributeError when it is no answer of the dialect.
    """
    return _WRITERS[dialect].split_answer(response, include_usage=include_usage)
