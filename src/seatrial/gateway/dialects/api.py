"""What every dialect can do: read a request, change it where the run says so, put a streamed answer together.

A dialect is a module with these functions. None of them raises on what a stranger wrote: a field that is not what it
should be counts as absent.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from seatrial.gateway.ended import TokenCounts
from seatrial.gateway.sse import SseEvent
from seatrial.model.trace import CallErrorKind

Payload = dict[str, Any]


class ToldError(NamedTuple):
    """An error as a provider tells it, in a body or in the middle of a stream."""

    type: str
    message: str


class StreamAssembler(Protocol):
    """Puts the events of one stream together to the answer that the call would have had without streaming."""

    @property
    def first_token(self) -> bool:
        """Whether something of the answer itself has arrived: text, reasoning, or a tool call."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the stream came to its proper end; False after the last byte means that it was cut."""
        ...

    @property
    def error(self) -> ToldError | None:
        """The error that the provider told inside the stream, if it did."""
        ...

    @property
    def garbled(self) -> str | None:
        """What came where JSON was due, if something did; no client can read such a stream."""
        ...

    def feed(self, event: SseEvent) -> None:
        """Take one event. What cannot be understood is left out."""
        ...

    def skim(self, whole: str) -> bool:
        """Take the text of whole events at once, if they hold nothing but more of a text; whether they did."""
        ...

    def response(self) -> Payload | None:
        """The answer as far as it came; None when nothing of it did."""
        ...


class DialectModule(Protocol):
    """One way of speaking to a model."""

    def check(self, payload: Any) -> str | None:
        """Why a request is malformed beyond passing on, or None."""
        ...

    def messages(self, payload: Payload) -> list[Any]:
        """The conversation of a request, in the dialect's own form."""
        ...

    def without_messages(self, payload: Payload) -> Payload:
        """The request without its conversation."""
        ...

    def with_overrides(self, payload: Payload, model: str | None, sampling: Mapping[str, Any]) -> Payload:
        """The request with the run's values where they are set (not None).

        Their names are neutral: `temperature`, `top_p`, `max_tokens`, `seed`, `stop`. What has no name in the
        dialect is left out.
        """
        ...

    def asks_for_stream(self, payload: Payload) -> bool:
        """Whether the answer is to be streamed."""
        ...

    def with_usage(self, payload: Payload) -> Payload:
        """The request, asking for a count of tokens at the end of a stream where that must be asked for."""
        ...

    def hides(self, data: str) -> bool:
        """Whether an event is there only because `with_usage` asked for it, so that the agent must not see it."""
        ...

    def may_hide(self, chunk: bytes) -> bool:
        """Whether whole events as they are sent could have one among them that `hides`; a quick look, no promise."""
        ...

    def assembler(self) -> StreamAssembler:
        """A new assembler for one stream."""
        ...

    def holds_answer(self, response: Any) -> bool:
        """Whether there is an answer of a model in what came with a good status."""
        ...

    def counts(self, response: Any) -> TokenCounts | None:
        """What an answer consumed, if it says so."""
        ...

    def finish_reason(self, response: Any) -> str | None:
        """Why the model stopped, in the dialect's own word."""
        ...

    def error_body(self, status: int, kind: CallErrorKind, message: str) -> Payload:
        """The body of an error answer with this status."""
        ...

    def error_event(self, status: int, kind: CallErrorKind, message: str) -> SseEvent:
        """The event that tells of an error when the answer has already begun."""
        ...
